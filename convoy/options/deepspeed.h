#pragma once

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "convoy/base/options.h"

namespace convoy::options {

/// Settings of a DeepSpeed configuration, as options of convoy.
struct DeepSpeedOptions {
  struct Entry {
    std::string key;     ///< in the file: "zero_optimization.stage"
    std::string option;  ///< "parallel.zero"
    std::string value;
  };
  std::vector<Entry> entries;
  std::vector<std::string> notes;  ///< keys without effect here, and why; sentences

  /// Sets the options. A different value on the command line or in a run's file is an error, as
  /// with Hugging Face's Trainer; "auto" in the file is no entry, so the other value holds.
  void apply(OptionTable& table, const std::string& file) const;
};

/// Reads the JSON file that `deepspeed --deepspeed_config` and Hugging Face's Trainer take. Each
/// key becomes an option, is without effect here, or is refused. Throws UsageError that names file,
/// line and key, and FileError.
DeepSpeedOptions read_deepspeed(const std::filesystem::path& file);

/// Reads the file and sets the options. Returns a sentence with the keys without effect; "" = all
/// have one.
std::string take_deepspeed(const std::string& file, OptionTable& table);

}  // namespace convoy::options
