#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <chrono>
#include <span>

#include "convoy/base/error.h"
#include "convoy/base/fake_gpu.h"
#include "convoy/base/text.h"
#include "convoy/base/timing.h"
#include "convoy/bench/rates.h"

namespace convoy::bench {
namespace {

constexpr double kRateSeconds = 0.15;  // per number
/// Products of a transformer's step: rows x inner x columns.
struct Product {
  int64_t rows, inner, columns;
};
/// Products of GPT-2 with 4 x 128 tokens, the vocabulary's last.
constexpr Product kCpuProducts[] = {
    {512, 768, 2304}, {512, 768, 3072}, {512, 3072, 768}, {512, 768, 50257}};
/// Product that is timed before these. Its rate is the result where it is below kSlowFlops FLOP/s.
constexpr Product kProbe = {64, 768, 768};
constexpr double kSlowFlops = 5e9;
constexpr Product kGpuProducts[] = {{8192, 8192, 8192}};
/// Small products for a simulated GPU, which runs on the processor and has no speed.
constexpr Product kSimulatedProducts[] = {{256, 256, 256}};
constexpr int64_t kMostCopied = int64_t{256} << 20, kMostSimulated = int64_t{1} << 20;

using doctor::Rate;
using Clock = std::chrono::steady_clock;

/// Shortest time of a call of `work`, which must have finished when it returns. The first call is
/// not timed, as it may load libraries and compile kernels.
template <class F>
double best_seconds(F&& work) {
  work();
  double best = 1e9;
  const auto began = Clock::now();
  do {
    const auto start = Clock::now();
    work();
    best = std::min(best, seconds_since(start));
  } while (seconds_since(began) < kRateSeconds);
  return best;
}

bool is_simulated(at::Device device) {
  return device.is_cuda() && fake_gpus();
}

std::span<const Product> products_for(at::Device device) {
  if (device.is_cpu()) return kCpuProducts;
  return is_simulated(device) ? std::span(kSimulatedProducts) : kGpuProducts;
}

/// Waits for a GPU.
void finish(const at::Tensor& tensor) {
  if (!tensor.is_cpu()) tensor.flatten()[0].item();
}

double product_seconds(const Product& product, at::TensorOptions options) {
  const auto& [rows, inner, columns] = product;
  const auto a = at::rand({rows, inner}, options), b = at::rand({inner, columns}, options);
  auto out = at::empty({rows, columns}, options);
  return best_seconds([&] {
    at::mm_out(out, a, b);
    finish(out);
  });
}

double flops_of(const Product& product) {
  return 2.0 * static_cast<double>(product.rows) *
         static_cast<double>(product.inner * product.columns);
}

double gemm_gflops(at::Device device, at::ScalarType type, int64_t spare_bytes) {
  const auto options = at::TensorOptions().device(device).dtype(type);
  // A processor without instructions for a type takes minutes for all of them.
  const double first = product_seconds(kProbe, options);
  const double rate = flops_of(kProbe) / first;
  if (rate < kSlowFlops) return rate * 1e-9;
  double flops = 0, seconds = 0;
  for (const auto& product : products_for(device)) {
    if ((product.inner + product.rows) * product.columns * 4 > spare_bytes) continue;
    seconds += product_seconds(product, options);
    flops += flops_of(product);
  }
  return (seconds > 0 ? flops / seconds : rate) * 1e-9;
}

double copy_gb_per_second(at::Device device, int64_t bytes) {
  const auto options = at::TensorOptions().device(device).dtype(at::kFloat);
  const auto from = at::ones({bytes / 4}, options);
  auto to = at::empty_like(from);
  const double seconds = best_seconds([&] {
    to.copy_(from);
    finish(to);
  });
  return 2.0 * static_cast<double>(bytes) / seconds * 1e-9;
}

}  // namespace

Rate measure_rate(at::Device device, int threads, int64_t bytes, Products products) {
  if (is_simulated(device)) bytes = std::min(bytes, kMostSimulated);
  Rate rate;
  rate.device = device.str();
  rate.threads = threads;
  if (products != Products::Bf16) rate.fp32_gflops = gemm_gflops(device, at::kFloat, 4 * bytes);
  if (products != Products::Fp32) rate.bf16_gflops = gemm_gflops(device, at::kBFloat16, 4 * bytes);
  rate.copy_gb_per_second = copy_gb_per_second(device, bytes);
  return rate;
}

std::vector<Rate> measure_rates(int threads, int num_gpus, int64_t available_bytes,
                                const std::function<void(const std::string&)>& say) {
  const int before = at::get_num_threads();
  const int64_t bytes = std::clamp(available_bytes / 16, int64_t{1} << 20, kMostCopied);
  std::vector<Rate> rates;
  for (const int count : threads > 1 ? std::vector<int>{1, threads} : std::vector<int>{1}) {
    say("timing " + plural(count, "thread"));
    at::set_num_threads(count);
    rates.push_back(measure_rate(at::kCPU, count, bytes));
  }
  at::set_num_threads(before);
  for (int i = 0; i < num_gpus; ++i) {
    say(fmt::format("timing GPU {}", i));
    const at::Device gpu(at::kCUDA, static_cast<at::DeviceIndex>(i));
    rates.push_back(measure_rate(gpu, 0, 4 * kMostCopied));
  }
  return rates;
}

}  // namespace convoy::bench
