#include "convoy/train/logging/metrics_file.h"

#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <cmath>
#include <fstream>
#include <map>

#include "convoy/base/error.h"
#include "convoy/job/job.h"
#include "convoy/train/memory_use.h"

namespace convoy::train {

namespace {

namespace fs = std::filesystem;

/// Values of one metric, by their labels as text; "" = no labels.
struct Family {
  const char* help;
  std::map<std::string, double> values;
};

std::string label(const char* name, const std::string& value) {
  std::string escaped;
  for (const char c : value) {
    if (c == '\\' || c == '"') escaped += '\\';
    escaped += c == '\n' ? ' ' : c;
  }
  return fmt::format("{}=\"{}\"", name, escaped);
}

double now() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

std::string number(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "+Inf" : "-Inf";
  return fmt::format("{}", value);
}

constexpr const char* kRunning = "1 while it trains, 0 after its end.";

class MetricsFile : public Callback {
 public:
  MetricsFile(fs::path file, std::function<void(const std::string&)> warn)
      : file_(std::move(file)), warn_(std::move(warn)) {}
  /// Writes that the training has ended, in whatever way.
  ~MetricsFile() override {
    if (families_.empty()) return;
    set("running", kRunning, 0);
    write();
  }
  MetricsFile(const MetricsFile&) = delete;
  MetricsFile& operator=(const MetricsFile&) = delete;

  void on_train_begin(const RunInfo& info) override {
    run_ = label("run", info.arguments->output.dir);
    set("ranks", "Ranks of the training.", info.job->num_devices());
    set("restarts", "Starts of the ranks by the launcher before this one.",
        info.job->environment.restart_count);
    set("start_time_seconds", "Start of this process's training, in seconds since 1970.", now());
    set("parameters", "Parameters of the model.", info.num_parameters);
    set("step", "Optimizer steps done.", info.first_step);
    set("max_steps", "Optimizer steps of the whole training.", info.max_steps);
    set("running", kRunning, 1);
    write();
  }

  void on_log(const LogRecord& record) override {
    set("step", "Optimizer steps done.", record.step);
    set("epoch", "Epochs done.", record.epoch);
    set("loss", "Mean training loss since the last log line.", record.loss);
    set("grad_norm", "Norm of the last step's gradient.", record.grad_norm);
    set("learning_rate", "Learning rate of the last step.", record.learning_rate);
    set("samples_per_second", "Rows a second over all ranks.", record.samples_per_second);
    set("goodput_ratio", "Part of the job's time in steps that count, over all its starts.",
        record.goodput);
    set("seconds_left", "Estimate of the seconds until the end.", record.seconds_left);
    set("skipped_steps", "Steps skipped because a gradient overflowed fp16.", record.skipped_steps);
    if (!std::isnan(record.peak_percent)) {
      set("compute_utilization_ratio", "Computing speed as a part of what products reach here.",
          record.peak_percent / 100);
    }
    wait("data", record.data_wait_percent);
    wait("communication", record.comm_wait_percent);
    for (const auto& [kind, bytes] : kinds_of(record.memory)) memory(kind, bytes);
    memory("process", record.memory_bytes);
    if (record.device_memory_bytes > 0) memory("device_peak", record.device_memory_bytes);
    for (const auto& [name, value] : record.metrics) model("train_" + name, value);
    write();
  }

  void on_evaluate(const Metrics& metrics, int64_t step) override {
    for (const auto& [name, value] : metrics) model(name, value);
    set("evaluated_step", "Step after which the last evaluation was.", step);
    write();
  }

  void on_save(const fs::path& path) override {
    set("checkpoints", "Checkpoints and models saved by this process.", ++num_saved_);
    set("last_save_time_seconds", "Time of the last save, in seconds since 1970.", now());
    (void)path;
    write();
  }

  void on_train_end(const Metrics&) override {
    set("running", kRunning, 0);
    write();
  }

 private:
  template <class Value>
  void set(const char* name, const char* help, Value value, const std::string& more = "") {
    auto& family = families_[name];
    family.help = help;
    family.values[more] = static_cast<double>(value);
  }
  void wait(const char* on, double percent) {
    set("wait_ratio", "Part of the time that a rank waits, by what for.", percent / 100,
        label("for", on));
  }
  void memory(const std::string& kind, int64_t bytes) {
    set("memory_bytes", "Memory of the largest rank since the last log line, by kind.", bytes,
        label("kind", kind));
  }
  void model(const std::string& name, double value) {
    set("metric", "Results of the last evaluation, and what the model tells beside its loss.",
        value, label("name", name));
  }

  std::string text() const {
    std::string out;
    for (const auto& [name, family] : families_) {
      out += fmt::format("# HELP convoy_{0} {1}\n# TYPE convoy_{0} gauge\n", name, family.help);
      for (const auto& [more, value] : family.values) {
        out += fmt::format("convoy_{}{{{}{}{}}} {}\n", name, run_, more.empty() ? "" : ",", more,
                           number(value));
      }
    }
    return out;
  }

  void write() {
    auto temporary = file_;
    temporary += fmt::format(".{}.tmp", ::getpid());
    std::ofstream out(temporary);
    out << text();
    out.close();
    std::error_code error;
    if (out) fs::rename(temporary, file_, error);
    if (out && !error) return;
    fs::remove(temporary, error);
    if (std::exchange(is_told_, true)) return;
    warn_(fmt::format("output.metrics_file = {} cannot be written; training goes on without it",
                      file_.string()));
  }

  fs::path file_;
  std::function<void(const std::string&)> warn_;
  std::string run_;
  std::map<std::string, Family> families_;
  int64_t num_saved_ = 0;
  bool is_told_ = false;
};

}  // namespace

std::shared_ptr<Callback> make_metrics_file(const fs::path& file,
                                            std::function<void(const std::string&)> warn) {
  if (file.extension() != ".prom") {
    fail<UsageError>("train",
                     "output.metrics_file = {} does not end in .prom; node_exporter reads no other "
                     "files",
                     file.string());
  }
  const auto folder = file.has_parent_path() ? file.parent_path() : fs::path(".");
  std::error_code ignored;
  if (!fs::is_directory(folder, ignored) || fs::is_directory(file, ignored)) {
    fail<UsageError>("train",
                     "output.metrics_file = {} is in no folder, or is one; try a file in a folder "
                     "that is there, such as node_exporter's --collector.textfile.directory",
                     file.string());
  }
  return std::make_shared<MetricsFile>(file, std::move(warn));
}

}  // namespace convoy::train
