#include "convoy/train/log_file.h"

#include <optional>

#include "convoy/base/append_file.h"
#include "convoy/train/run_files.h"

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

  void on_message(const std::string& text) override { write({{"message", text}}); }

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

}  // namespace

std::shared_ptr<Callback> make_log_file(std::function<void(const std::string&)> warn) {
  return std::make_shared<LogFile>(std::move(warn));
}

}  // namespace convoy::train
