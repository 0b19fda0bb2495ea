#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <filesystem>
#include <map>
#include <optional>
#include <string>

#include "convoy/checkpoint/memory_copies.h"
#include "convoy/job/job.h"
#include "convoy/options/arguments.h"

namespace convoy::train {

// Internal to the component.

/// Memory copies of a run: when they are made, and which of them a restart may go on from. Keeps
/// references: the arguments of the constructor must outlive this object.
class MemoryCopying {
 public:
  MemoryCopying(const options::TrainingArguments& arguments, const job::Job& job);

  /// Decides whether and how often the state after `step` and later ones is copied, and removes
  /// copies of later steps, which the run left; collective.
  /// Returns a sentence of it for a person, "" where there is nothing to say. Throws UsageError
  /// where memory_copy_steps asks for copies that cannot be.
  std::string begin(int64_t step, const parallel::State& weights, const parallel::State& moments,
                    const comm::Group& group);
  bool is_due(int64_t step) const;
  /// Copies the state after `step`; `texts`: small files beside the tensors, by name. Collective.
  /// Returns a warning where the memory could not be had, with which copying ends; else "".
  std::string write(int64_t step, const parallel::State& weights, const parallel::State& moments,
                    const std::map<std::string, std::string>& texts, const comm::Group& group);

  // Not collective.
  /// Copies that earlier starts of this job left, the newest first.
  std::deque<std::filesystem::path> left() const;
  bool holds(const std::filesystem::path& folder) const;
  /// Name of a folder for a person: "the memory copy of step 40", or its path.
  std::string shown(const std::filesystem::path& folder) const;

 private:
  std::string refusal() const;
  bool is_offered() const;

  const options::TrainingArguments& arguments_;
  const job::Job& job_;
  std::optional<checkpoint::MemoryCopies> copies_;  // none: the launcher keeps no memory
  int64_t every_ = 0;                               // steps; 0: no copies
  bool paced_ = false;                              // by the time that a copy takes
  int64_t next_ = 0, last_ = 0;                     // steps
  std::chrono::steady_clock::time_point last_end_;
};

}  // namespace convoy::train
