#pragma once

#include <atomic>
#include <chrono>
#include <filesystem>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "convoy/base/files.h"
#include "convoy/base/tensor_memory.h"
#include "convoy/checkpoint/collective_buffering.h"
#include "convoy/checkpoint/manifest.h"
#include "convoy/checkpoint/sums.h"
#include "convoy/comm/group.h"
#include "convoy/formats/safetensors_folder.h"
#include "convoy/parallel/buffers/state.h"

namespace convoy::checkpoint {

/// Gives some ranks, of which this is one and rank 0 the first, connections that nobody else uses.
/// Each of them calls it; the same ranks may get the same group again.
using ConnectWriters = std::function<comm::Group(const std::vector<int>& ranks)>;

/// Tensors, and which of them each file is to hold.
struct FilesOfState {
  std::map<std::string, std::vector<formats::TensorInfo>> files;
  parallel::State state;
};

/// Files that all processes of a group write together: made by rank 0, of their final size; each
/// writes what it holds into place. They appear when all have finished.
class Save {
 public:
  /// Begins a save; collective. Tensors that the states point to must not change until complete()
  /// has returned, unless `copies` is set. Processes that do not see the files in `folder` send
  /// their parts to rank 0: in complete() over connections that `connect` makes, or now if there is
  /// no `connect`.
  Save(const std::filesystem::path& folder, std::vector<FilesOfState> states,
       const comm::Group& group, const ConnectWriters& connect = {}, bool copies = false);

  // Both may run on a thread of their own. Errors are kept for finish().
  /// Calls `first`, then writes the parts that this process holds.
  void write(const std::function<void()>& first = {}) noexcept;
  /// Writes the parts that other processes sent, too, and waits for the disk. Saves of one group
  /// complete in the same order everywhere.
  void complete() noexcept;

  /// Makes write() and complete() fail soon; another thread may call it.
  void stop() noexcept;

  /// Throws an error that write() or complete() met on any rank; collective. Rank 0 enters the
  /// files into `manifest`.
  void finish(Manifest* manifest);

 private:
  /// Place of a tensor.
  struct Home {
    size_t file;
    size_t begin;
  };

  void put(size_t tensor, const parallel::StatePiece& piece);
  void write_pieces();
  void check_stop() const;
  void note_error() noexcept;

  std::vector<std::pair<std::string, formats::SafetensorsPlan>> plans_;  // [file]
  PooledBytes copies_;  // they are nothing that a step takes; let go of after the state
  parallel::State state_;
  std::vector<Home> home_;  // [tensor]
  comm::Group group_;
  comm::Group writers_;  // of rank 0 and those that do not see the files; one rank: none
  Sums sums_;
  std::vector<std::unique_ptr<AtomicFile>> finals_;                // rank 0's
  std::vector<std::unique_ptr<formats::SafetensorsPieces>> open_;  // where this process sees them
  std::unique_ptr<CollectiveBuffering> buffering_;                 // where all see them
  std::exception_ptr error_;
  std::atomic<bool> stop_{false};
};

/// A thread that writes a save. One that is given up stops it.
class WritingThread {
 public:
  WritingThread(Save& save, const std::function<void()>& work);
  ~WritingThread();
  WritingThread(const WritingThread&) = delete;
  WritingThread& operator=(const WritingThread&) = delete;

  bool done() const { return is_done(std::chrono::milliseconds(0)); }
  /// Collective: returns when those of all ranks are done, however long their disks need.
  void wait_for_all(const comm::Group& group);

 private:
  bool is_done(std::chrono::milliseconds patience) const {
    return done_.wait_for(patience) == std::future_status::ready;
  }

  Save& save_;
  std::future<void> done_;
  std::thread thread_;
};

std::vector<formats::TensorInfo> infos_of(const parallel::State& state);

/// Files of weights: those of a model, or the one of an adapter.
formats::SafetensorsShards shards_of(const parallel::State& weights, int64_t max_shard_bytes);

/// Tensors of a checkpoint, and how they are written.
struct CheckpointTensors {
  std::filesystem::path folder;  ///< rank 0's to say
  parallel::State weights, moments;
  int64_t max_shard_bytes;
  bool beside = false;  ///< from a copy of what this process owns, on time that a training leaves
  std::function<void()> first = {};  ///< done before all else, by the thread that writes
  ConnectWriters connect = {};
};

/// A checkpoint's tensors on their way to the disk, by a thread. Where they are not written beside
/// a training, they must not change until finish() has returned.
class BackgroundSave {
 public:
  /// Starts writing; collective. Moments go to kOptimizer in the folder, or to shards of it.
  BackgroundSave(CheckpointTensors tensors, const comm::Group& group);

  /// Whether this process has written its part, or failed to.
  bool done() const { return thread_.done(); }
  /// Collective: waits for all. Throws what any rank met.
  Manifest finish();

 private:
  std::filesystem::path folder_;
  formats::SafetensorsShards weight_files_, moment_files_;
  comm::Group group_;
  Save save_;
  WritingThread thread_;
};

/// Rank 0 completes a folder whose weights were written: the shards' index, and none of before.
void finish_weights(const std::filesystem::path& folder, const formats::SafetensorsShards& shards,
                    const comm::Group& group);

}  // namespace convoy::checkpoint
