#include "convoy/bench/step.h"

#include <cmath>

#include "convoy/base/error.h"
#include "convoy/base/text.h"
#include "convoy/base/timing.h"
#include "convoy/bench/peaks.h"
#include "convoy/bench/without_evaluation.h"

namespace convoy::bench {

namespace {

/// Collects the steps after the warm-up, and counts what the one after those asks of a GPU.
class StepTimer : public train::Callback {
 public:
  StepTimer(const StepBenchOptions& options, DeviceCounter& counter)
      : first_(options.warmup + 1), last_(options.warmup + options.steps), counter_(counter) {}

  void on_step(const train::StepTiming& timing) override {
    if (timing.step >= first_ && timing.step <= last_) steps_.push_back(timing);
    if (timing.step > last_) work_ = counter_.end();
    if (timing.step == last_) counter_.begin();
  }

  const std::vector<train::StepTiming>& steps() const { return steps_; }
  const std::optional<DeviceWork>& work() const { return work_; }

 private:
  int64_t first_, last_;
  DeviceCounter& counter_;
  std::vector<train::StepTiming> steps_;
  std::optional<DeviceWork> work_;
};

MeasuredSteps summary(const std::vector<train::StepTiming>& steps, int ranks) {
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
  MeasuredSteps out;
  out.median_ms = typical * 1e3;
  out.loss = steps.back().loss;
  out.samples_per_second = samples / count / typical;
  out.tokens_per_second = tokens / count / typical;
  out.data_wait_percent = 100 * data / total;
  out.comm_wait_percent = 100 * comm / total;
  return out;
}

void add_mfu(MeasuredSteps& times, double flops_per_sample, double peak,
             const options::TrainingArguments& arguments) {
  const auto peaks = peaks_of(times.device);
  times.peak_tflops = peak > 0 ? peak : peaks ? bench::peak_tflops(*peaks, arguments) : 0;
  if (times.peak_tflops == 0 || flops_per_sample <= 0) return;
  times.mfu_percent = 100 * times.samples_per_second * flops_per_sample /
                      (times.peak_tflops * 1e12 * times.num_devices);
}

}  // namespace

std::optional<MeasuredSteps> time_steps(tasks::Task& task, options::TrainingArguments arguments,
                                        const StepBenchOptions& options) {
  leave_out_evaluation(arguments);
  arguments.save_strategy = arguments.logging_strategy = "no";
  arguments.output.dir.clear();
  arguments.resume_from_checkpoint.clear();
  arguments.output.quiet = true;
  auto job = job::join_job(arguments.parallel);
  DeviceCounter counter(job.devices.at(0), !arguments.output.trace.empty());
  arguments.max_steps = options.warmup + options.steps + (counter.counts() ? 1 : 0);
  auto run = task.prepare(arguments.parallel);
  train::Trainer trainer(run.factory, arguments, run.train_data, nullptr, job, run.fill);
  auto timer = std::make_shared<StepTimer>(options, counter);
  trainer.add_callback(timer);
  auto metrics = trainer.train();
  if (!job.is_main()) return std::nullopt;

  auto out = summary(timer->steps(), job.groups.rows.size());
  out.strategy = job.strategy;
  out.num_devices = job.num_devices();
  out.threads = job.threads;
  out.steps = options.steps;
  out.device = device_name(job.devices.at(0));
  out.device_work = timer->work();
  add_mfu(out, run.flops_per_sample, options.peak_tflops, arguments);
  out.peak_memory_bytes = metrics.at("peak_memory_bytes_per_rank");
  out.memory_bytes = metrics.at("memory_bytes_per_rank");
  if (auto gpu = metrics.find("peak_device_memory_bytes_per_rank"); gpu != metrics.end()) {
    out.peak_device_memory_bytes = gpu->second;
  }
  if (run.flops_per_sample > 0) {
    out.pace = measure_pace(run.flops_per_sample, out.samples_per_second, trainer, arguments,
                            int64_t{256} << 20);
  }
  return out;
}

std::string to_text(const MeasuredSteps& t) {
  const auto gpu = t.peak_device_memory_bytes;
  std::string more;
  if (t.pace) {
    more += fmt::format(", {:.0f} % of the peak, {:.2f}x the floor", t.pace->peak_percent,
                        t.pace->floor_times);
  }
  if (t.mfu_percent) {
    more += fmt::format(", MFU {:.1f} % of {:g} TFLOP/s", *t.mfu_percent, t.peak_tflops);
  }
  if (t.device_work) {
    more += fmt::format(", a step {} launches and {}", t.device_work->launches,
                        plural(t.device_work->waits, "wait"));
  }
  return fmt::format(
      "{}, {} ranks x {} threads, {} steps: {:.1f} ms/step, {} samples/s, {:.0f} "
      "tokens/s, peak {}{}, waiting for data {:.1f} %, for communication {}{}\n",
      t.strategy, t.num_devices, t.threads, t.steps, t.median_ms, human_rate(t.samples_per_second),
      t.tokens_per_second, human_bytes(t.peak_memory_bytes),
      gpu ? " (GPU " + human_bytes(*gpu) + ")" : "", t.data_wait_percent,
      std::isfinite(t.comm_wait_percent) ? fmt::format("{:.1f} %", t.comm_wait_percent) : "n/a",
      more);
}

Json to_json(const MeasuredSteps& t) {
  Json out{{"step_ms_median", t.median_ms},
           {"loss", t.loss},
           {"samples_per_second", t.samples_per_second},
           {"tokens_per_second", t.tokens_per_second},
           {"peak_memory_bytes", t.peak_memory_bytes},
           {"memory_bytes", t.memory_bytes},
           {"data_wait_percent", t.data_wait_percent},
           {"comm_wait_percent", t.comm_wait_percent}};
  if (t.peak_device_memory_bytes) out["peak_device_memory_bytes"] = *t.peak_device_memory_bytes;
  if (t.pace) {
    out["peak_percent"] = t.pace->peak_percent;
    out["floor_times"] = t.pace->floor_times;
  }
  if (!t.device.empty()) out["device"] = t.device;
  if (t.mfu_percent) {
    out["mfu_percent"] = *t.mfu_percent;
    out["peak_tflops"] = t.peak_tflops;
  }
  if (t.device_work) {
    out["launches_per_step"] = t.device_work->launches;
    out["waits_per_step"] = t.device_work->waits;
  }
  return out;
}

}  // namespace convoy::bench
