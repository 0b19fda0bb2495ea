#pragma once

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "convoy/base/options.h"

namespace convoy::train {

/// What a DeepSpeed configuration asks for, in our options.
struct DeepSpeedOptions {
  struct Entry {
    std::string key;     ///< in the file: "zero_optimization.stage"
    std::string option;  ///< "parallel.zero"
    std::string value;
  };
  std::vector<Entry> entries;
  std::vector<std::string> notes;  ///< what has no effect here, and why; sentences

  /// Sets the options. What the command line or a run's file says otherwise is an error, as with
  /// Hugging Face's Trainer; "auto" in the file is no entry, so theirs holds.
  void apply(OptionTable& table, const std::string& file) const;
};

/// Reads the JSON file that `deepspeed --deepspeed_config` and Hugging Face's Trainer take. Each
/// key becomes an option, is without effect here, or is refused. Throws UsageError that names file,
/// line and key, and FileError.
DeepSpeedOptions read_deepspeed(const std::filesystem::path& file);

/// Reads it and sets the options. Returns a sentence with what has no effect here; "" = all has.
std::string take_deepspeed(const std::string& file, OptionTable& table);

}  // namespace convoy::train
