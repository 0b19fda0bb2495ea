#include "convoy/train/logging/metrics_text.h"

#include <fmt/format.h>

#include <chrono>
#include <cmath>
#include <map>

#include "convoy/job/job.h"
#include "convoy/train/memory_use.h"

namespace convoy::train {

namespace {

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

class MetricsText : public Callback {
 public:
  explicit MetricsText(PublishMetrics publish) : publish_(std::move(publish)) {}
  /// Tells that the training has ended, in whatever way.
  ~MetricsText() override {
    if (families_.empty()) return;
    set("running", kRunning, 0);
    publish();
  }
  MetricsText(const MetricsText&) = delete;
  MetricsText& operator=(const MetricsText&) = delete;

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
    publish();
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
    publish();
  }

  void on_evaluate(const Metrics& metrics, int64_t step) override {
    for (const auto& [name, value] : metrics) model(name, value);
    set("evaluated_step", "Step after which the last evaluation was.", step);
    publish();
  }

  void on_save(const std::filesystem::path&) override {
    set("checkpoints", "Checkpoints and models saved by this process.", ++num_saved_);
    set("last_save_time_seconds", "Time of the last save, in seconds since 1970.", now());
    publish();
  }

  void on_train_end(const Metrics&) override {
    set("running", kRunning, 0);
    publish();
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

  void publish() const { publish_(text()); }
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

  PublishMetrics publish_;
  std::string run_;
  std::map<std::string, Family> families_;
  int64_t num_saved_ = 0;
};

}  // namespace

std::shared_ptr<Callback> make_metrics_text(PublishMetrics publish) {
  return std::make_shared<MetricsText>(std::move(publish));
}

}  // namespace convoy::train
