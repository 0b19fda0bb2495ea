#pragma once

#include <map>
#include <string>
#include <vector>

namespace convoy::options {

/// Treatment of a key of DeepSpeed's file.
struct DeepSpeedRule {
  std::string key;
  std::string option = {};  ///< takes the value; empty: none does
  std::string why = {};     ///< it is without effect, unless `refused`
  /// Values in DeepSpeed's words, with ours; empty: as they are. Others are refused.
  std::map<std::string, std::string> values = {};
  bool refused = false;  ///< unless it is off
  bool others = false;   ///< values that are not listed stay as they are
};

/// Part of the file that has no effect, or is refused as a whole.
struct DeepSpeedPart {
  std::string key;
  std::string why;
  bool refused;  ///< unless its "enabled" is false
};

/// Keys with a value of their own: those of other options, then those that knobs name.
const std::vector<DeepSpeedRule>& deepspeed_rules();

const std::vector<DeepSpeedPart>& deepspeed_parts();

}  // namespace convoy::options
