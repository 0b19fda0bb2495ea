#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "convoy/launch/spawn.h"
#include "convoy/launch/supervise/output_queue.h"

namespace convoy::launch {

/// Files in memory that outlive the ranks of this host, for copies of a training's state. Ranks
/// find them as links memory-0, memory-1, ... in a folder. The files begin empty, and their memory
/// is free again when this process ends, however it ends.
class KeptMemory {
 public:
  static constexpr int kFiles = 4;  ///< two for each of two copies

  /// Makes the folder. Throws FileError where the system gives no such files.
  explicit KeptMemory(std::filesystem::path folder);

  const std::filesystem::path& folder() const { return folder_; }
  /// Forgets the copies after a failure in the step of the one before (`again`), for which they may
  /// be the reason; trusts them after another one. Returns whether it forgot any.
  bool judge(bool again);
  /// Empties the files, and removes all that ranks left in the folder but the links. Leaves a file
  /// `in_doubt`, with which ranks make copies only where they are asked to. Returns whether there
  /// were any.
  bool forget();
  /// Removes that file.
  void trust();

 private:
  std::filesystem::path folder_;
  std::vector<Descriptor> files_;
};

/// Sentence of a launcher that forgets copies after a failure which came again.
std::string told_dropped(int64_t step);

/// Memory in that folder; null, with a warning, where the system gives none.
std::unique_ptr<KeptMemory> keep_memory(const std::filesystem::path& folder,
                                        OutputQueue& output_queue);

}  // namespace convoy::launch
