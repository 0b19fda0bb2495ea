#include "convoy/bench/pace.h"

#include <algorithm>
#include <chrono>
#include <optional>

#include "convoy/base/timing.h"
#include "convoy/bench/rates.h"
#include "convoy/train/state.h"

namespace convoy::bench {

namespace {

// Bytes per parameter that an update reads and writes beside the optimizer's states: weight and
// gradient in, weight out; in bf16 also the bf16 copy of the weight and the gradient's other dtype.
constexpr double kUpdateBytes = 12, kUpdateBytesBf16 = 18;
constexpr double kPatience = 20;  // seconds of training before it is measured beside them

Pace pace_of(const doctor::Rate& rate, double flops_per_sample, double samples_per_second,
             train::Trainer& trainer, const options::TrainingArguments& arguments) {
  const bool half = arguments.bf16 || arguments.fp16;
  const double peak = (half ? rate.bf16_gflops : rate.fp32_gflops) * 1e9;
  const double each = samples_per_second / trainer.job().num_devices();
  const double samples =
      static_cast<double>(trainer.state().step_samples) / trainer.job().num_devices();
  const auto& flat = trainer.strategy().replica().flat();
  const auto& mesh = trainer.job().groups.mesh;
  const auto parameters = static_cast<double>(flat.num_trainable_parameters()) /
                          mesh.degree(parallel::Axis::Pipeline | parallel::Axis::Tensor);
  const double update_bytes = (half ? kUpdateBytesBf16 : kUpdateBytes) +
                              2 * static_cast<double>(flat.optimizer().state_bytes());
  const double floor = samples * flops_per_sample / peak +
                       parameters * update_bytes / (rate.copy_gb_per_second * 1e9);
  return {100 * each * flops_per_sample / peak, samples / each / floor};
}

doctor::Rate rate_of(const job::Job& job, const options::TrainingArguments& arguments,
                     int64_t bytes) {
  const bool half = arguments.bf16 || arguments.fp16;
  return measure_rate(job.devices.at(0), job.threads, bytes,
                      half ? Products::Bf16 : Products::Fp32);
}

}  // namespace

Pace measure_pace(double flops_per_sample, double samples_per_second, train::Trainer& trainer,
                  const options::TrainingArguments& arguments, int64_t bytes) {
  return pace_of(rate_of(trainer.job(), arguments, bytes), flops_per_sample, samples_per_second,
                 trainer, arguments);
}

std::function<void(train::LogRecord&)> step_pace(double flops_per_sample, train::Trainer& trainer,
                                                 const options::TrainingArguments& arguments) {
  if (flops_per_sample <= 0 || arguments.output.quiet) return {};
  return [=, &trainer, began = std::chrono::steady_clock::now(),
          rate = std::optional<doctor::Rate>()](train::LogRecord& record) mutable {
    if (!rate && seconds_since(began) < kPatience) return;
    // The peak of the memory is the training's: the measurement takes what activations left.
    constexpr int64_t kLeast = 4 << 20, kMost = 256 << 20, kBuffers = 5;
    const int64_t bytes = std::min(record.memory.activations / kBuffers, kMost);
    if (!rate && bytes < kLeast) return;
    if (!rate) rate = rate_of(trainer.job(), arguments, bytes);
    const auto pace =
        pace_of(*rate, flops_per_sample, record.samples_per_second, trainer, arguments);
    record.peak_percent = pace.peak_percent;
    record.floor_times = pace.floor_times;
  };
}

}  // namespace convoy::bench
