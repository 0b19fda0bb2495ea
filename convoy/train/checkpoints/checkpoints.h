#pragma once

#include <deque>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "convoy/base/error.h"
#include "convoy/base/folder_lock.h"
#include "convoy/checkpoint/save.h"
#include "convoy/train/callback_handler.h"
#include "convoy/train/checkpoints/disk_space.h"
#include "convoy/train/checkpoints/memory_copying.h"
#include "convoy/train/checkpoints/model_files.h"
#include "convoy/train/checkpoints/space_wait.h"
#include "convoy/train/state.h"

namespace convoy::train {

// Internal to the component.

/// Folder of a run: the checkpoint to resume from, the checkpoints that are written during
/// training, and the model at its end. All ranks call its functions together, unless noted; rank 0
/// looks at the folder for all.
class Checkpoints {
 public:
  /// Keeps references: the arguments of the constructor must outlive this object.
  Checkpoints(const options::TrainingArguments& arguments, const job::Job& job,
              parallel::Strategy& strategy, const CallbackHandler& callbacks);
  ~Checkpoints();

  void set_files(ModelFiles files) { files_ = std::move(files); }
  const std::string& encoding() const { return files_.encoding; }

  /// Takes output.dir for this run alone, in the state that the last one left or anew, and reads
  /// weights and moments of the checkpoint to resume from. By default that is the newest whole one;
  /// warns why newer ones are not. Returns its state, none for a new run, which begins with
  /// `fresh`. Throws UsageError for a folder of others, or a checkpoint that does not fit.
  std::optional<TrainerState> resume(const TrainerState& fresh);
  /// Path of that checkpoint, or a name for a person; "": a new run.
  std::string resumed_from() const { return memory_.shown(resumed_from_); }

  /// Begins to write a checkpoint, or writes it where `wait` or save_async is off. One at a time:
  /// waits for one that is under way. Where the disk is full, ranks wait for space (SpaceWait).
  void save(TrainerState& state, bool wait);
  void set_stop_signal(SpaceWait::StopSignalOfAny signal) {
    space_.set_stop_signal(std::move(signal));
  }
  /// Decides about memory copies after `step`. Returns a sentence of it, or "".
  std::string begin_memory_copies(int64_t step) {
    const auto bytes = [this] {
      return checkpoint::MemoryCopies::bytes_of_both(saved_weights(), strategy_.moments());
    };
    return memory_.begin(step, bytes, strategy_.processes());
  }
  bool is_memory_copy_due(int64_t step) const { return memory_.is_due(step); }
  /// Copies the state to memory, from which a restart goes on.
  void copy_to_memory(const TrainerState& state);
  /// Whether a save that was under way was lost with the ranks that made it, before the copy from
  /// which the run went on.
  bool lost_save() const { return lost_save_; }
  /// Whether this process has still to write its part. Not collective.
  bool writing() const;
  /// Waits for the checkpoint under way, if any. Throws what any rank met. Where it met a full disk
  /// and saves wait for space, the checkpoint is lost: tells so, and owes_save() from then on.
  void finish(TrainerState& state);
  /// Whether a checkpoint was lost, and none was saved since.
  bool owes_save() const { return owes_save_; }
  /// Waits for it, when an error that all ranks throw ends the run.
  void keep() noexcept;

  /// Path of the checkpoint of a step. Not collective.
  std::filesystem::path path(int64_t step) const;
  /// Value of resume_from_checkpoint to resume there: "latest", or its path.
  std::string name_to_resume(int64_t step) const;
  /// A warning where output.dir has no room for that many checkpoints, else "". Not collective.
  std::string lack_of_space(int64_t num_checkpoints) const;
  /// A warning where a save of `what` that took that long would be lost after a signal, else "".
  /// Not collective.
  std::string slow_save(const std::string& what, double seconds) const;
  bool holds_model() const;
  /// Whether output.dir holds, whole, what save_model() would write of that state.
  bool holds_model_of(const TrainerState& state) const;

  /// Writes the model at the end of a run, whose weights are those of `model_step`. What was there
  /// before stays until all is written.
  void save_model(const TrainerState& state, int64_t model_step);
  /// Writes the small files that somebody removed from the folder of a finished run.
  void restore_small_files();
  /// Writes `<split>_results.json` and merges into `all_results.json`. Not collective.
  void save_metrics(const std::string& split, const Metrics& metrics);
  /// Metrics of the model in output.dir that save_metrics() wrote; empty where it did not.
  /// Collective.
  Metrics saved_metrics(const std::string& split) const;

  void load_weights(const std::filesystem::path& folder);
  /// Reads the moments of a checkpoint for a new run. Returns the number of updates that they saw.
  int64_t load_moments(const std::filesystem::path& checkpoint);
  /// Reads the weights of the best checkpoint that `state` names. Where it is not there, is not
  /// whole or holds other training's weights, warns, keeps those of the last step and returns
  /// false.
  bool load_best(const TrainerState& state);
  /// Warns where load_best() would not find that checkpoint.
  void tell_lost_best(const TrainerState& state);
  /// Notes that the best evaluation is that of the checkpoint which the run went on from.
  void note_resumed_as_best(TrainerState& state);

 private:
  struct Saving;

  void open_output();
  void tell_who_shares();
  void lock_output();
  void keep_output();
  void check_inputs() const;
  void check_output() const;
  bool holds_run() const;
  std::vector<std::string> own_names() const;
  bool would_write(const std::filesystem::path& file) const;
  void put_old_run_aside();
  void remove_old_run(const std::filesystem::path& best) const;
  std::deque<std::filesystem::path> checkpoints_of_this_job() const;
  void find_candidates();
  std::optional<std::filesystem::path> next_candidate();
  bool was_named(const std::filesystem::path& folder) const;
  void check_best_was_saved(const TrainerState& saved) const;
  bool goes_on() const;
  void share_copy(int64_t step);
  Json first_that_fits(const TrainerState& fresh);
  std::string follow_or_branch(const std::filesystem::path& from, TrainerState& state) const;
  void keep_lineage(const TrainerState& state);
  void tell_new_beginning(bool weights_are_touched);
  void tell_left_behind(const std::string& newest);
  void tell_other_batch(const TrainerState& saved, const TrainerState& fresh);
  void tell_other_rows(const TrainerState& saved, const TrainerState& fresh);
  static void check_same_base(const std::filesystem::path& folder, const TrainerState& saved,
                              const TrainerState& fresh);
  void pass_over(const std::filesystem::path& folder, const FileError& error);
  Json look_at(const std::filesystem::path& checkpoint, const TrainerState& fresh) const;
  void check_same_model(const std::filesystem::path& checkpoint) const;
  void tell_different(const Json& wanted, const Json& saved,
                      std::vector<std::string>& different) const;
  bool was_left_behind(const std::filesystem::path& checkpoint) const;
  void check_same_adapter(const std::filesystem::path& checkpoint) const;
  std::string seen_from_here(const std::filesystem::path& checkpoint) const;
  std::string best_seen_from_here(const std::filesystem::path& from,
                                  const TrainerState& saved) const;
  std::filesystem::path best_path(const TrainerState& state) const;
  std::string lack_of_best(const TrainerState& state) const;
  std::filesystem::path saved_place(const TrainerState& state) const;
  std::vector<std::string> lose_their_best(const std::filesystem::path& path,
                                           const TrainerState& state) const;
  void put_in_place(const std::filesystem::path& model) const;
  void save_small_files(
      const std::filesystem::path& folder,
      const std::function<bool(const std::filesystem::path&)>& are_wanted = {}) const;
  parallel::State saved_weights(const parallel::HostShare* share = nullptr) const;
  void read_weights(const std::filesystem::path& folder);
  Saves saves_of(int64_t num_checkpoints) const;
  void write_model(const TrainerState& state, int64_t model_step);
  void begin_save(TrainerState& state, bool wait);
  void finish_saving();
  checkpoint::ConnectWriters connect_writers();
  void tell_slow_save(const std::filesystem::path& path, double seconds);

  const options::TrainingArguments& arguments_;
  const job::Job& job_;
  parallel::Strategy& strategy_;
  const CallbackHandler& callbacks_;
  const std::filesystem::path dir_;  // "" = nothing is saved
  std::string resume_from_;          // a folder, "latest", or "" for a new run
  ModelFiles files_;
  FolderLock lock_;  // of output.dir, on the main rank
  MemoryCopying memory_;
  std::deque<std::filesystem::path> memory_candidates_;  // to go on from, on the main rank
  std::deque<std::filesystem::path> candidates_;         // of them those on the disk
  bool candidate_was_named_ = false;                     // then no other one will do
  bool lost_save_ = false;
  std::vector<std::string> passed_over_;
  std::string resumed_from_;
  std::map<std::vector<int>, comm::Group> writers_;  // with connections of their own
  std::unique_ptr<Saving> saving_;                   // under way
  double last_save_ = 0;                             // seconds
  double slowest_save_ = 0;                          // of these, that was told
  SpaceWait space_;
  bool owes_save_ = false;
};

/// Source that the arguments ask to resume from: a folder, "latest", or "" for a new run.
std::string resume_source(const options::TrainingArguments& arguments);

/// Whether the arguments ask to resume from a checkpoint.
bool resumes(const options::TrainingArguments& arguments);

/// Whether the arguments forbid restarts to resume: resume_from_checkpoint = false.
bool forbids_resuming(const options::TrainingArguments& arguments);

}  // namespace convoy::train
