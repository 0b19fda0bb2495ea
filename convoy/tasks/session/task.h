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

  SessionArguments& arguments() { return arguments_; }
  const models::SessionConfig& model() const { return session_.model; }

 private:
  Run run(std::shared_ptr<train::Dataset> train_data, train::ModelFiles files);

  SessionArguments arguments_;
  SessionModel session_;
};

}  // namespace convoy::tasks
