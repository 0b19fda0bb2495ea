#include "convoy/comm/device.h"
#include "convoy/tasks/language/generate.h"

#include <ATen/ATen.h>

#include <cmath>

namespace convoy::tasks {

int32_t draw_token(const at::Tensor& scores, const GenerateOptions& options, double uniform) {
  auto [sorted, order] = at::sort(comm::download(scores), /*stable=*/true, 0, /*descending=*/true);
  const auto* score = sorted.const_data_ptr<float>();
  const auto* id = order.const_data_ptr<int64_t>();
  int64_t count = sorted.numel();
  if (options.top_k > 0 && options.top_k < count) {
    const float least = score[options.top_k - 1];  // those that tie with it stay
    count = options.top_k;
    while (count < sorted.numel() && score[count] == least) ++count;
  }
  std::vector<double> weights(static_cast<size_t>(count));
  double sum = 0;
  for (int64_t i = 0; i < count; ++i) {
    const double weight = std::exp(static_cast<double>(score[i] - score[0]) / options.temperature);
    sum += weights[static_cast<size_t>(i)] = weight;
  }
  double kept = 0;
  int64_t last = 0;
  for (; last < count; ++last) {
    if (last > 0 && kept >= options.top_p * sum) break;
    kept += weights[static_cast<size_t>(last)];
  }
  double so_far = 0;
  for (int64_t i = 0; i < last; ++i) {
    so_far += weights[static_cast<size_t>(i)];
    if (uniform * kept < so_far) return static_cast<int32_t>(id[i]);
  }
  return static_cast<int32_t>(id[last - 1]);
}

}  // namespace convoy::tasks
