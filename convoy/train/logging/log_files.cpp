#include "convoy/train/logging/log_files.h"

#include <array>
#include <chrono>
#include <ctime>
#include <optional>

#include "convoy/base/append_file.h"
#include "convoy/base/error.h"
#include "convoy/base/files.h"
#include "convoy/base/json_number.h"
#include "convoy/base/text.h"
#include "convoy/formats/tensorboard.h"
#include "convoy/job/job.h"
#include "convoy/launch/error_file.h"
#include "convoy/train/checkpoints/run_files.h"
#include "convoy/train/run_sums.h"
#include "convoy/train/scorer.h"

namespace convoy::train {

namespace {

std::string utc_now() {
  const auto now = std::chrono::system_clock::to_time_t(std::chrono::system_clock::now());
  std::tm parts{};
  ::gmtime_r(&now, &parts);
  std::array<char, 32> text{};
  std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text.data();
}

/// Returns when and where a run started, and how large it is: what a report tells beside its
/// curves.
Json start_of(const RunInfo& info) {
  const auto& job = *info.job;
  return {{"time", utc_now()},
          {"host", launch::host_name()},
          {"device", job.devices.at(0).str()},
          {"ranks", job.num_devices()},
          {"strategy", job.strategy},
          {"first_step", info.first_step},
          {"max_steps", info.max_steps},
          {"num_examples", info.num_examples},
          {"num_parameters", info.num_parameters},
          {"num_trainable_parameters", info.num_trainable_parameters},
          {"total_batch", info.total_batch}};
}

/// Whether an earlier start of the run may have logged steps that this one makes again.
bool follows_a_start(const RunInfo& info) {
  return info.first_step > 0 || info.job->environment.restart_count > 0;
}

/// Removes the lines of steps after `step`, which are made again, from a log by replacing the file.
/// Returns a sentence where that fails, else "".
std::string cut_after(const std::filesystem::path& file, int64_t step) try {
  std::error_code none;
  if (!std::filesystem::exists(file, none)) return "";
  std::string kept;
  bool cut = false;
  auto lines = split(read_file(file), '\n');
  if (!lines.empty() && !lines.back().empty()) {  // its host died while it was written
    lines.pop_back();
    cut = true;
  }
  for (const auto& line : lines) {
    if (line.empty()) continue;
    const auto json = Json::parse(line, nullptr, /*allow_exceptions=*/false);
    const auto of_line = json.is_object() ? whole_number<int64_t>(json.value("step", Json())) : 0;
    if (of_line && *of_line > step) {
      cut = true;
    } else {
      kept += line + "\n";
    }
  }
  if (cut) write_file(file, kept);
  return "";
} catch (const FileError& error) {
  return fmt::format("{}; its lines of steps that are made again stay", error.what());
}

class LogFile : public Callback {
 public:
  explicit LogFile(std::function<void(const std::string&)> warn) : warn_(std::move(warn)) {}

  void on_train_begin(const RunInfo& info) override {
    const std::filesystem::path folder = info.arguments->output.dir;
    file_.reset();
    if (folder.empty()) return;
    const bool follows = follows_a_start(info);
    if (follows) tell(cut_after(folder / kLog, info.first_step));
    file_.emplace(folder / kLog, /*keep=*/follows);
    write({{"start", start_of(info)}});
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

  void on_train_begin(const RunInfo& info) override {
    writer_.emplace(folder_);
    if (follows_a_start(info)) tell(writer_->purge(info.first_step + 1));
  }

  void on_log(const LogRecord& record) override {
    Metrics values;
    const Json json = record.to_json();
    for (const auto& [key, value] : json.items()) {
      const auto number = finite_number(value);
      if (key != "step" && number) values["train/" + key] = *number;
    }
    tell(writer_->add_scalars(values, record.step));
  }

  void on_evaluate(const Metrics& metrics, int64_t step) override {
    if (!writer_) return;
    constexpr std::string_view kPrefix = "eval_";
    Metrics values;
    for (const auto& [key, value] : metrics) {
      if (!judges_models(key)) continue;  // the same in each evaluation, or an error of another
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
