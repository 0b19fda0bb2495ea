#include "convoy/nn/losses/softmax_kernel.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "convoy/comm/to_host.h"
#include "convoy/gpu/agreement.h"
#include "convoy/gpu/kernel.h"

namespace convoy::nn {

namespace {

/// Rows of scores, as the text has them.
struct Scores {
  long long count, stride;
  float inverse_temperature, cap;
};

/// Constants of a text of the kernels.
struct SoftmaxText {
  at::ScalarType score;
  unsigned threads;  ///< of a block

  auto operator<=>(const SoftmaxText&) const = default;

  std::string text() const {
    return fmt::format("#define CONVOY_SCORE {}\n#define CONVOY_THREADS {}\n",
                       score == at::kFloat ? "float" : "unsigned short", threads) +
#include <convoy/nn/losses/softmax_cu.h>
        ;
  }
};

/// Text for rows of `count` scores: a thread takes eight and more.
SoftmaxText text_of(at::ScalarType score, int64_t count) {
  constexpr unsigned kWarp = 32, kMost = 512;
  unsigned threads = kWarp;
  while (threads < kMost && int64_t{8} * threads < count) threads *= 2;
  return {score, threads};
}

struct SoftmaxKernels {
  explicit SoftmaxKernels(const SoftmaxText& by)
      : threads(by.threads),
        loss("convoy_cross_entropy", by.text()),
        log_sums("convoy_log_sums", by.text()),
        slopes("convoy_slopes", by.text()) {}

  unsigned threads;
  gpu::Kernel loss, log_sums, slopes;
};

SoftmaxKernels& kernels_of(at::ScalarType score, int64_t count) {
  static std::mutex mutex;
  static auto* all = new std::map<SoftmaxText, std::unique_ptr<SoftmaxKernels>>;
  const std::lock_guard lock(mutex);
  const auto text = text_of(score, count);
  auto& out = (*all)[text];
  if (!out) out = std::make_unique<SoftmaxKernels>(text);
  return *out;
}

SoftmaxKernels& kernels_of(const at::Tensor& scores) {
  return kernels_of(scores.scalar_type(), scores.size(1));
}

Scores facts_of(const at::Tensor& scores, const Logits& logits) {
  return {scores.size(1), scores.stride(0), static_cast<float>(1 / logits.temperature),
          static_cast<float>(logits.cap)};
}

gpu::Grid grid_of(const at::Tensor& scores) {
  return {static_cast<unsigned>(scores.size(0)), kernels_of(scores).threads};
}

/// Rows of scores with what stands between them, for the simulated GPU.
at::Tensor with_gaps(const at::Tensor& scores) {
  return scores.as_strided({scores.size(0), scores.stride(0)}, {scores.stride(0), 1});
}

/// Largest difference of the kernels' results for some rows from torch's, computed in fp64.
double difference(at::Device device, at::ScalarType dtype, int64_t count) {
  constexpr int64_t kRows = 3, kMost = 5000;
  const int64_t C = std::min(count, kMost), stride = (C + 15) / 8 * 8;
  constexpr double kTemperature = 1.5, kCap = 4;
  const auto wide = at::TensorOptions(device).dtype(at::kDouble);
  const auto waves = at::sin(at::arange(kRows * stride, wide) * 1.3) * 9;
  const auto all = waves.view({kRows, stride}).to(dtype);
  const auto columns = at::arange(kRows, wide.dtype(at::kLong)) * (C / kRows);
  const auto scores = [&] { return all.clone().narrow(1, 0, C); };
  const auto one_hot = at::zeros({kRows, C}, wide).scatter_(1, columns.unsqueeze(1), 1);
  const auto own = [&](const at::Tensor& t) { return (t * one_hot).sum(1); };

  auto capped = scores(), cut = scores();
  const auto losses =
      cross_entropy_by_kernel(capped, columns, {kTemperature, kCap}, /*wants_slope=*/true);
  auto sums = at::empty({kRows}, wide.dtype(at::kFloat));
  log_sums_by_kernel(cut, sums, kTemperature);
  slopes_by_kernel(cut, sums, columns, kTemperature);

  const auto exact = scores().to(at::kDouble), share = at::tanh(exact / kCap);
  const auto log = at::log_softmax(share * kCap / kTemperature, 1);
  const auto plain = exact / kTemperature;
  return comm::item<double>(gpu::difference(
      {losses, capped, sums, cut}, {own(log).neg(), (log.exp() - one_hot) * (1 - share * share),
                                    plain.logsumexp(1), plain.softmax(1) - one_hot}));
}

}  // namespace

bool has_softmax_kernels(at::Device device, at::ScalarType scores, int64_t count) {
  const bool fits = scores == at::kFloat || scores == at::kBFloat16;
  if (!device.is_cuda() || !fits || count == 0) return false;
  auto& kernels = kernels_of(scores, count);
  if (!kernels.log_sums.runs_on(device) || !kernels.slopes.runs_on(device)) return false;
  at::NoGradGuard no_grad;
  return kernels.loss.serves(device, [&] { return difference(device, scores, count); });
}

at::Tensor cross_entropy_by_kernel(at::Tensor& scores, const at::Tensor& columns,
                                   const Logits& logits, bool wants_slope) {
  auto losses = at::empty({scores.size(0)}, scores.options().dtype(at::kFloat));
  if (scores.size(0) == 0) return losses;
  gpu::LaunchOperands operands{.reads = {columns}, .writes = {losses}};
  (wants_slope ? operands.updates : operands.reads).push_back(with_gaps(scores));
  kernels_of(scores).loss.launch(scores.device(), grid_of(scores), operands,
                                 scores.mutable_data_ptr(), columns.const_data_ptr<int64_t>(),
                                 losses.mutable_data_ptr<float>(), facts_of(scores, logits),
                                 wants_slope ? 1 : 0);
  return losses;
}

void log_sums_by_kernel(const at::Tensor& scores, at::Tensor& log_sums, double temperature) {
  kernels_of(scores).log_sums.launch(
      scores.device(), grid_of(scores), {.reads = {with_gaps(scores)}, .writes = {log_sums}},
      scores.const_data_ptr(), log_sums.mutable_data_ptr<float>(), facts_of(scores, {temperature}));
}

void slopes_by_kernel(at::Tensor& scores, const at::Tensor& log_sums, const at::Tensor& columns,
                      double temperature) {
  kernels_of(scores).slopes.launch(scores.device(), grid_of(scores),
                                   {.reads = {log_sums, columns}, .updates = {with_gaps(scores)}},
                                   scores.mutable_data_ptr(), log_sums.const_data_ptr<float>(),
                                   columns.const_data_ptr<int64_t>(),
                                   facts_of(scores, {temperature}));
}

}  // namespace convoy::nn
