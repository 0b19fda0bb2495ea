#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>

#include "cli/bench.h"
#include "cli/pace.h"
#include "cli/program.h"
#include "cli/ranks.h"
#include "convoy/base/error.h"
#include "convoy/base/text.h"
#include "convoy/base/timing.h"

namespace convoy::cli {

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

Json summary(const std::vector<train::StepTiming>& steps, int ranks, double peak_bytes) {
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
  return {{"step_ms_median", typical * 1e3},
          {"samples_per_second", samples / count / typical},
          {"tokens_per_second", tokens / count / typical},
          {"peak_memory_bytes", peak_bytes},
          {"data_wait_percent", 100 * data / total},
          {"comm_wait_percent", 100 * comm / total}};
}

}  // namespace

int bench_step(const StepBench& options) {
  if (options.steps < 1)
    fail<UsageError>("cli", "--steps = {}; expected at least 1", options.steps);
  auto configured = read_config(options.config);
  if (auto code = launch_ranks(options.nproc)) return *code;
  auto& arguments = configured->training;
  arguments.max_steps = options.warmup + options.steps;
  arguments.eval_strategy = arguments.save_strategy = arguments.logging_strategy = "no";
  arguments.output.dir.clear();
  arguments.resume_from_checkpoint.clear();
  arguments.output.quiet = true;
  auto job = train::join_job(arguments.parallel);
  auto run = configured->task->prepare(arguments.parallel);
  train::Trainer trainer(run.factory, arguments, run.train_data, nullptr, job, run.fill);
  auto timer = std::make_shared<StepTimer>(options.warmup);
  trainer.add_callback(timer);
  auto metrics = trainer.train();
  if (!job.is_main()) return 0;

  auto json = summary(timer->steps(), job.data.size(), metrics.at("peak_memory_bytes_per_rank"));
  if (auto gpu = metrics.find("peak_device_memory_bytes_per_rank"); gpu != metrics.end()) {
    json["peak_device_memory_bytes"] = gpu->second;
  }
  std::string near;
  if (run.flops_per_sample > 0) {
    const auto pace = measure_pace(run.flops_per_sample, json["samples_per_second"], trainer,
                                   arguments, int64_t{256} << 20);
    json["peak_percent"] = pace.peak_percent;
    json["floor_times"] = pace.floor_times;
    near = fmt::format(", {:.0f} % of the peak, {:.2f}x the floor", pace.peak_percent,
                       pace.floor_times);
  }
  if (options.json) {
    fmt::print("{}\n", json.dump(2));
    return 0;
  }
  const double waited = json["comm_wait_percent"];
  fmt::print(
      "{}, {} ranks x {} threads, {} steps: {:.1f} ms/step, {} samples/s, {:.0f} "
      "tokens/s, peak {}{}, waiting for data {:.1f} %, for communication {}{}\n",
      job.strategy, job.num_devices(), job.threads, options.steps,
      json["step_ms_median"].get<double>(), human_rate(json["samples_per_second"].get<double>()),
      json["tokens_per_second"].get<double>(), human_bytes(json["peak_memory_bytes"].get<double>()),
      json.contains("peak_device_memory_bytes")
          ? " (GPU " + human_bytes(json["peak_device_memory_bytes"].get<double>()) + ")"
          : "",
      json["data_wait_percent"].get<double>(),
      std::isfinite(waited) ? fmt::format("{:.1f} %", waited) : "n/a", near);
  return 0;
}

}  // namespace convoy::cli
