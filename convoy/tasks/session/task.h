#pragma once

#include "convoy/tasks/session/run.h"
#include "convoy/tasks/task.h"

namespace convoy::tasks {

/// Recommends the next item of sessions in Parquet.
class SessionTask : public Task {
 public:
  void declare(OptionTable& table) override { arguments_.declare(table); }
  void settle(OptionTable& table) override;
  Run prepare() override;
  Run open(const std::filesystem::path& folder, OptionTable& table) override;
  NamedData evaluation_data(const std::string& where) override;
  std::string baseline() override;

  /// evaluation_data() for recommending what comes next: sessions keep their end, and batches hold
  /// owner().
  NamedData prediction_data(const std::string& where);

  SessionArguments& arguments() { return arguments_; }
  const models::SessionConfig& model() const { return session_.model; }
  /// The column that says whose session a row is; "" when the schema has none.
  const std::string& owner() const { return session_.owner; }

 private:
  NamedData open_data(const std::string& where, const DataArguments& data, bool with_owner) const;
  Run run(std::shared_ptr<train::Dataset> train_data, train::ModelFiles files);

  SessionArguments arguments_;
  SessionModel session_;
};

}  // namespace convoy::tasks
