#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "convoy/base/folder_lock.h"
#include "convoy/checkpoint/host_copies.h"
#include "convoy/checkpoint/memory_copies.h"
#include "convoy/job/job.h"
#include "convoy/options/arguments.h"
#include "convoy/parallel/host_share.h"

namespace convoy::train {

// Internal to the component.

/// Content of a memory copy.
struct CopiedState {
  parallel::State weights, moments;
  std::map<std::string, std::string> texts;  ///< small files beside them, by name
  int64_t saving_step = 0;  ///< of a checkpoint that is being written to the disk; 0: none is
};

/// Memory copies of this run that earlier starts of its ranks left, the newest first.
std::deque<std::filesystem::path> left_memory_copies(const options::TrainingArguments& arguments,
                                                     const launch::RankEnvironment& ranks);

/// Throws UsageError where memory_copy_steps asks for copies that these ranks cannot make.
void check_memory_copies(const options::TrainingArguments& arguments, const job::Job& job);

/// Memory copies of a run: when they are made, and which of them a restart may go on from. Keeps
/// references: the arguments of the constructor must outlive this object.
class MemoryCopying {
 public:
  MemoryCopying(const options::TrainingArguments& arguments, const job::Job& job);

  /// Takes the memory for this training, unless another one of the launch has that of a host, and
  /// finds the copies that any host holds. Collective.
  void find(const comm::Group& group);
  /// Decides whether and how often steps after `step` are copied, and removes all copies that this
  /// run does not go on from. Returns a sentence for the banner, or "". Collective. Throws
  /// UsageError where copies that are asked for do not fit into a first start's memory.
  /// `bytes` returns those of two copies; it is asked where copies may be made, on all ranks.
  std::string begin(int64_t step, const std::function<int64_t()>& bytes, const comm::Group& group);
  bool is_due(int64_t step) const;
  /// Copies what `content` returns, the state after `step`. Returns a warning where that failed,
  /// after which no more copies are made; else "". Collective.
  std::string write(int64_t step, const std::function<CopiedState()>& content,
                    const comm::Group& group);

  /// Gives each host a whole copy of a step of left(); afterwards is_ready() tells whether they
  /// have it. Returns warnings. Collective.
  std::vector<std::string> share_copy(int64_t step, const comm::Group& group);

  // Not collective.
  /// Copies that the run may go on from, the newest first, as paths on this host.
  std::deque<std::filesystem::path> left() const;
  /// Whether a copy can be read on each host. (On one host its sums are checked where it is read.)
  bool is_ready(int64_t step) const;
  std::filesystem::path copy_of(int64_t step) const { return copies_->slots().copy_of(step); }
  /// The copy of this rank's host for that of rank 0's.
  std::filesystem::path here(const std::filesystem::path& folder) const;
  /// Share of this rank in what its host writes alone; null where all ranks write one copy.
  const parallel::HostShare* share() const;
  bool holds(const std::filesystem::path& folder) const;
  /// Step of the checkpoint that was being written to the disk when a copy was made; 0: none was.
  int64_t saving_step(const std::filesystem::path& folder) const;
  /// Name of a folder for a person: "the memory copy of step 40", or its path.
  std::string shown(const std::filesystem::path& folder) const;

 private:
  void open();
  bool is_offered() const;
  void forget_others(int64_t step) const;
  std::vector<int64_t> left_steps() const;
  checkpoint::HeldCopies held(const comm::Group& group) const;
  std::string lack_of_memory(const comm::Group& group) const;
  void pace(int64_t step, std::chrono::steady_clock::time_point began, const comm::Group& group);

  const options::TrainingArguments& arguments_;
  const job::Job& job_;
  checkpoint::HostPlace place_;
  std::optional<parallel::HostShare> share_;  // none: the host lacks some of the state
  bool sends_ = false;                        // hosts lack some, and send each other what they have
  std::optional<checkpoint::MemoryCopies> copies_;  // none: the launcher keeps no memory
  FolderLock lock_;              // right to use the memory, of the first rank of each host
  std::string run_;              // what tells runs apart, by this host's paths
  std::vector<int64_t> left_;    // steps of copies that any host holds, the furthest first
  std::set<int64_t> ready_;      // of them those that all of several hosts hold, whole
  int64_t needed_ = 0;           // bytes of two copies
  int64_t every_ = 0;            // steps; 0: no copies
  bool paced_ = false;           // by the time that a copy takes
  int64_t next_ = 0, last_ = 0;  // steps
  std::chrono::steady_clock::time_point last_end_;
};

}  // namespace convoy::train
