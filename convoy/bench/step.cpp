#include "convoy/bench/step.h"

#include <cmath>

#include "convoy/base/error.h"
#include "convoy/base/text.h"
#include "convoy/base/timing.h"

namespace convoy::bench {

namespace {

/// Collects the steps after the warm-up.
class StepTimer : public train::Callback {
 public:
  explicit StepTimer(int64_t warmup) : warmup_(warmup) {}

  void on_step(const train::StepTiming& timing) override {
    if (timing.step > warmup_) steps_.push_back(timing);
  }

  const std::vector<train::StepTiming>& steps() const { return steps_; }

 private:
  int64_t warmup_;
  std::vector<train::StepTiming> steps_;
};

StepTimes summary(const std::vector<train::StepTiming>& steps, int ranks) {
  std::vector<double> seconds;
  double total = 0, data = 0, comm = 0, samples = 0, tokens = 0;
  for (const auto& step : steps) {
    seconds.push_back(step.seconds);
    total += step.seconds;
    data += step.data_wait;
    comm += step.comm_wait;
    samples += static_cast<double>(step.samples);
    tokens += static_cast<double>(step.local_tokens) * ranks;
  }
  const double typical = median(seconds);
  const auto count = static_cast<double>(steps.size());
  StepTimes out;
  out.median_ms = typical * 1e3;
  out.samples_per_second = samples / count / typical;
  out.tokens_per_second = tokens / count / typical;
  out.data_wait_percent = 100 * data / total;
  out.comm_wait_percent = 100 * comm / total;
  return out;
}

}  // namespace

std::optional<StepTimes> time_steps(tasks::Task& task, train::TrainingArguments arguments,
                                    const StepOptions& options) {
  arguments.max_steps = options.warmup + options.steps;
  arguments.eval_strategy = arguments.save_strategy = arguments.logging_strategy = "no";
  arguments.output.dir.clear();
  arguments.resume_from_checkpoint.clear();
  arguments.output.quiet = true;
  auto job = train::join_job(arguments.parallel);
  auto run = task.prepare(arguments.parallel);
  train::Trainer trainer(run.factory, arguments, run.train_data, nullptr, job, run.fill);
  auto timer = std::make_shared<StepTimer>(options.warmup);
  trainer.add_callback(timer);
  auto metrics = trainer.train();
  if (!job.is_main()) return std::nullopt;

  auto out = summary(timer->steps(), job.groups.rows.size());
  out.strategy = job.strategy;
  out.num_devices = job.num_devices();
  out.threads = job.threads;
  out.steps = options.steps;
  out.peak_memory_bytes = metrics.at("peak_memory_bytes_per_rank");
  if (auto gpu = metrics.find("peak_device_memory_bytes_per_rank"); gpu != metrics.end()) {
    out.peak_device_memory_bytes = gpu->second;
  }
  if (run.flops_per_sample > 0) {
    out.pace = measure_pace(run.flops_per_sample, out.samples_per_second, trainer, arguments,
                            int64_t{256} << 20);
  }
  return out;
}

std::string to_text(const StepTimes& t) {
  const auto gpu = t.peak_device_memory_bytes;
  return fmt::format(
      "{}, {} ranks x {} threads, {} steps: {:.1f} ms/step, {} samples/s, {:.0f} "
      "tokens/s, peak {}{}, waiting for data {:.1f} %, for communication {}{}\n",
      t.strategy, t.num_devices, t.threads, t.steps, t.median_ms, human_rate(t.samples_per_second),
      t.tokens_per_second, human_bytes(t.peak_memory_bytes),
      gpu ? " (GPU " + human_bytes(*gpu) + ")" : "", t.data_wait_percent,
      std::isfinite(t.comm_wait_percent) ? fmt::format("{:.1f} %", t.comm_wait_percent) : "n/a",
      t.pace ? fmt::format(", {:.0f} % of the peak, {:.2f}x the floor", t.pace->peak_percent,
                           t.pace->floor_times)
             : "");
}

Json to_json(const StepTimes& t) {
  Json out{{"step_ms_median", t.median_ms},
           {"samples_per_second", t.samples_per_second},
           {"tokens_per_second", t.tokens_per_second},
           {"peak_memory_bytes", t.peak_memory_bytes},
           {"data_wait_percent", t.data_wait_percent},
           {"comm_wait_percent", t.comm_wait_percent}};
  if (t.peak_device_memory_bytes) out["peak_device_memory_bytes"] = *t.peak_device_memory_bytes;
  if (t.pace) {
    out["peak_percent"] = t.pace->peak_percent;
    out["floor_times"] = t.pace->floor_times;
  }
  return out;
}

}  // namespace convoy::bench
