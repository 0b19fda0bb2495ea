#pragma once

#include <memory>
#include <optional>
#include <string>

#include "convoy/tasks/chat/task.h"
#include "convoy/tasks/preference/options.h"
#include "convoy/tasks/preference/reference_model.h"
#include "convoy/tasks/preference/reference_pass.h"

namespace convoy::tasks {

/// Trains a causal language model on pairs of answers, of which one was preferred (DPO). The
/// reference is the model that the run starts from, or another one; its log-probabilities are
/// computed once.
class PreferenceTask : public ChatTask {
 public:
  /// `family`: of families().
  explicit PreferenceTask(std::string family);

  void set_defaults(options::TrainingArguments& training) const override;
  void settle(OptionTable& table) override;
  Run prepare(const options::ParallelArguments& parallel) override;
  Run open(const std::filesystem::path& folder, OptionTable& table) override;
  NamedData evaluation_data(const std::string& where) override;

 protected:
  void declare_data(OptionTable& table) override;
  void read_data(const options::ParallelArguments& parallel, Run& out) override;
  std::shared_ptr<const ChatRows> read_rows(const std::string& file) const override;
  DerivedColumns columns_of(const std::shared_ptr<const ChatRows>& all,
                            const RowsOfConversations& rows) const override;
  std::string name_of_samples() const override { return "pairs"; }
  Json config_of_blocks() const override;
  std::function<void(const nn::BlockList& blocks)> finish_blocks() const override;

 private:
  ReferencePlace place_of_reference() const;
  planner::FirstPass first_pass(const Run& run) const;
  /// Takes the log-probabilities that an opened run has kept of the pairs of `data`.
  void take_kept(const std::string& data) const;

  PreferenceLossOptions loss_;
  ReferencePlace place_;
  std::string seed_;  // of weights that are drawn
  std::optional<ReferenceModel> other_reference_;
  std::shared_ptr<ReferenceLogProbs> reference_ = std::make_shared<ReferenceLogProbs>();
};

}  // namespace convoy::tasks
