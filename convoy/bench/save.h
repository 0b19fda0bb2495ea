#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

#include "convoy/base/json.h"
#include "convoy/tasks/task.h"

namespace convoy::bench {

struct SaveOptions {
  std::filesystem::path folder = ".";  ///< folder in which one for the files is made, and removed
  std::filesystem::path within;        ///< a folder for the files that is there, and stays
  int64_t rounds = 3;                  ///< times to write and read
  int64_t saves = 2;                   ///< checkpoints beside the training
  int64_t save_steps = 12;             ///< from one to the next
};

/// Makes a folder in `folder` for the files of this process. Throws FileError.
std::filesystem::path new_save_folder(const std::filesystem::path& folder);

/// Times of checkpoints. Seconds are medians but for `step_during`, a mean.
struct SaveTimes {
  int64_t bytes = 0;       ///< of weights and moments, all ranks together
  double save = 0;         ///< time to write and sync them as a checkpoint
  double plain_write = 0;  ///< time to write as many bytes in large blocks
  double load = 0;         ///< from the disk
  double plain_read = 0;
  double copy = 0;          ///< of what a rank owns, into new memory
  double held_up = 0;       ///< training, by one checkpoint
  double step_during = 0;   ///< a step while a checkpoint is written
  double step_without = 0;  ///< any other
};

/// Trains as `arguments` say with checkpoints in the background, then writes and reads the state
/// `rounds` times. All ranks call this; the main one gets the times.
std::optional<SaveTimes> time_saves(tasks::Task& task, options::TrainingArguments arguments,
                                    const SaveOptions& options);

Json to_json(const SaveTimes& times);

}  // namespace convoy::bench
