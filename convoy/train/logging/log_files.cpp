#include "convoy/train/logging/log_files.h"

#include <optional>

#include "convoy/base/append_file.h"
#include "convoy/base/error.h"
#include "convoy/formats/tensorboard.h"
#include "convoy/train/checkpoints/run_files.h"
#include "convoy/train/run_sums.h"
#include "convoy/train/setup/job.h"

namespace convoy::train {

namespace {

class LogFile : public Callback {
 public:
  explicit LogFile(std::function<void(const std::string&)> warn) : warn_(std::move(warn)) {}

  void on_train_begin(const RunInfo& info) override {
    const std::filesystem::path folder = info.arguments->output.dir;
    file_.reset();
    if (!folder.empty()) file_.emplace(folder / kLog, /*keep=*/info.first_step > 0);
  }

  void on_log(const LogRecord& record) override { write(record.to_json()); }

  void on_evaluate(const Metrics& metrics, int64_t step) override {
    Json line = metrics;
    line["step"] = step;
    write(line);
  }

  void on_weight_sums(const std::map<std::string, uint64_t>& sums, int64_t step) override {
    Json texts;
    for (const auto& [name, sum] : sums) texts[name] = sum_text(sum);
    write({{"step", step}, {"weight_sums", texts}});
  }

  void on_message(const std::string& text) override { write({{"message", text}}); }

  void on_new_output() override {
    if (file_) tell(file_->reopen());
  }

  void on_train_end(const Metrics& metrics) override {
    write(Json(metrics));
    if (file_) tell(file_->flush());
  }

 private:
  void write(const Json& line) {
    if (!file_) return;
    tell(file_->append(json_line(line) + "\n"));
  }
  void tell(const std::string& trouble) {
    if (!trouble.empty()) warn_(trouble);
  }

  std::function<void(const std::string&)> warn_;
  std::optional<AppendFile> file_;
};

class Tensorboard : public Callback {
 public:
  Tensorboard(std::filesystem::path folder, std::function<void(const std::string&)> warn)
      : folder_(std::move(folder)), warn_(std::move(warn)) {}

  void on_train_begin(const RunInfo&) override { writer_.emplace(folder_); }

  void on_log(const LogRecord& record) override {
    Metrics values;
    const Json json = record.to_json();
    for (const auto& [key, value] : json.items()) {
      if (key != "step" && value.is_number()) values["train/" + key] = value.get<double>();
    }
    tell(writer_->add_scalars(values, record.step));
  }

  void on_evaluate(const Metrics& metrics, int64_t step) override {
    if (!writer_) return;
    constexpr std::string_view kPrefix = "eval_";
    Metrics values;
    for (const auto& [key, value] : metrics) {
      const bool plain = key.rfind(kPrefix, 0) != 0;
      values[plain ? "eval/" + key : "eval/" + key.substr(kPrefix.size())] = value;
    }
    tell(writer_->add_scalars(values, step));
  }

  void on_new_output() override try {
    if (writer_ && !std::filesystem::exists(writer_->path())) writer_.emplace(folder_);
  } catch (const FileError& error) {
    tell(error.what());
  }

  void on_train_end(const Metrics&) override { tell(writer_->flush()); }

 private:
  void tell(const std::string& trouble) {
    if (!trouble.empty()) warn_(trouble);
  }

  std::filesystem::path folder_;
  std::function<void(const std::string&)> warn_;
  std::optional<formats::TensorboardWriter> writer_;
};

}  // namespace

std::shared_ptr<Callback> make_log_file(std::function<void(const std::string&)> warn) {
  return std::make_shared<LogFile>(std::move(warn));
}

std::shared_ptr<Callback> make_tensorboard(std::filesystem::path folder,
                                           std::function<void(const std::string&)> warn) {
  return std::make_shared<Tensorboard>(std::move(folder), std::move(warn));
}

}  // namespace convoy::train
