#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

namespace convoy::bench {

/// Options of `[parallel]` by their names.
using Options = std::map<std::string, std::string>;

/// Strategy by its name in --strategies.
struct Preset {
  std::string name;
  Options (*options)(int ranks);  ///< that spread a step over so many ranks
  int least = 2, multiple = 1;    ///< numbers of ranks that it takes
  const char* why = "";
  bool has_processes = true;
  std::string schedule = "";  ///< of a pipeline that is named by it; else empty
};

/// Preset of a name, which may be that of a pipeline's schedule: one pipeline, or two of them
/// (-2d).
std::optional<Preset> find_preset(const std::string& name);
std::vector<std::string> preset_names();

}  // namespace convoy::bench
