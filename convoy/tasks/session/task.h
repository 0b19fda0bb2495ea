#pragma once

#include "convoy/prepare/items.h"
#include "convoy/tasks/session/baselines.h"
#include "convoy/tasks/session/evaluated_rows.h"
#include "convoy/tasks/session/known_items.h"
#include "convoy/tasks/session/pretrained_vectors.h"
#include "convoy/tasks/session/run.h"
#include "convoy/tasks/task.h"

namespace convoy::tasks {

/// Request of `convoy export vectors`.
struct VectorExport {
  std::filesystem::path folder;  ///< of the run, or a checkpoint
  std::filesystem::path output;  ///< new folder
  std::string data;              ///< whose sessions get vectors, too; "" = none
  std::string format = "npy";    ///< as formats::VectorFile has it
  int64_t rows = 0;              ///< only the first; 0 = all
  /// Tells a person the notes of the run, on the main rank.
  std::function<void(const std::vector<std::string>& notes)> tell = [](const auto&) {};
};

/// Recommends the next item of sessions in Parquet.
class SessionTask : public Task {
 public:
  std::string name() const override { return "session model"; }
  void set_defaults(options::TrainingArguments& training) const override;
  std::vector<std::string> usual_trials(const options::TrainingArguments& training) const override;
  void declare(OptionTable& table) override { arguments_.declare(table); }
  void check_config(const std::string& file) const override;
  void settle(OptionTable& table) override;
  std::vector<Window> windows() const override;
  std::vector<std::string> main_metrics() const override;
  void begin_with(const std::filesystem::path& folder) override { earlier_ = folder; }
  Run prepare(const options::ParallelArguments& parallel) override;
  Run open(const std::filesystem::path& folder, OptionTable& table) override;
  NamedData evaluation_data(const std::string& where) override;
  void ask_details(const EvaluationDetails& details) override;
  EvaluationReport report_details(const std::string& data, train::Metrics& metrics) override;
  std::string split_of(const std::string& where, const std::string& split) override;
  std::string baseline() override;
  void declare_predict(OptionTable& table) override;
  std::string requests_help() const override;
  void predict(const PredictionRequest& prediction, const Run& run,
               const options::TrainingArguments& training) override;
  /// Writes vectors whose products are scores: of the items, and of sessions where it asks for
  /// them. Throws UsageError and FileError that name the option or the file.
  void export_vectors(const VectorExport& asked, const Run& run,
                      const options::TrainingArguments& training);

 private:
  /// Returns evaluation_data() for recommendations: sessions keep their end, and batches hold their
  /// owners. Notes are on the first `rows`; 0 = all.
  NamedData prediction_data(const std::string& where, int64_t rows) const;
  NamedData open_data(const std::string& where, const SessionArguments& arguments,
                      MoreColumns more) const;
  /// Finds the items that this training sees, or an earlier one that it goes on from; notes cut
  /// rows and new items.
  void survey(const PretrainedVectors& vectors, std::vector<std::string>& notes);
  /// Whether a ranking leaves out items that the owner of a row of `file` has seen.
  bool excludes_seen(const std::string& file) const;
  /// Files and rows of `file` to measure baselines on, ranked as the model ranks them.
  BaselineData baseline_data(const std::string& file) const;
  /// Adds the further items of the data in `where` to those that an opened model with an item tower
  /// ranks.
  void take_newer_items(const std::string& where);
  /// Returns the names of the items that the opened model ranks for the rows in `file`.
  prepare::ItemNames names_of_items(const std::string& file) const;
  Run run(std::shared_ptr<dataset::Dataset> train_data, train::ModelFiles files);
  /// Adds metrics of the evaluation's lists, and notes those that the data do not allow.
  void add_list_metrics(const BaselineData& data, const std::vector<int64_t>& targets,
                        train::Metrics& metrics, std::vector<std::string>& notes) const;

  SessionArguments arguments_;
  formats::Schema schema_;
  std::shared_ptr<Baselines> baselines_;  ///< of the last evaluation data; null: there are none
  int64_t trained_length_ = 0;            ///< of an opened model
  std::filesystem::path folder_;          ///< where it was
  std::filesystem::path earlier_;         ///< begin_with()
  std::shared_ptr<const KnownIdsOfModel> known_;
  std::vector<int64_t> counts_;  ///< by item, in all training data so far
  int64_t top_k_ = 10;
  int64_t seed_ = 0;                                 ///< of the run
  std::shared_ptr<std::vector<std::string>> notes_;  ///< of the run
  bool requests_ = false;
  EvaluationDetails details_;                 ///< ask_details()
  std::shared_ptr<EvaluatedRows> evaluated_;  ///< of the last evaluation; null: not kept
  const OptionTable* options_ = nullptr;      ///< of an opened model; those typed come after open()
  /// Whether the last evaluation data leave out seen items.
  std::shared_ptr<bool> excludes_ = std::make_shared<bool>(false);
};

/// Adds `convoy data sessions` and `synthetic`.
void add_session_commands(CLI::App& data, Work& work);

}  // namespace convoy::tasks
