#include "convoy/masking/span_corruption.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>

#include "convoy/base/error.h"
#include "convoy/comm/device.h"
#include "convoy/masking/row_keys.h"

namespace convoy::masking {

namespace {

constexpr uint64_t kTextSpanSite = 0x7370616e;  // keeps these draws apart from others

/// Cuts `count` into `parts` of at least one, with all ways equally likely.
std::vector<int64_t> cut(int64_t count, int64_t parts, uint64_t key) {
  std::vector<int64_t> lengths;
  int64_t length = 1, cuts = parts - 1;
  for (int64_t place = 1; place < count; ++place) {
    // Probability of a cut here: remaining cuts over remaining places.
    const double chance = static_cast<double>(cuts) / static_cast<double>(count - place);
    if (cuts > 0 && uniform01(key, static_cast<uint64_t>(place)) < chance) {
      lengths.push_back(length);
      length = 0;
      --cuts;
    }
    ++length;
  }
  lengths.push_back(length);
  return lengths;
}

}  // namespace

int64_t SpanCorruption::num_noise_tokens(int64_t length) const {
  const auto wanted = std::nearbyint(static_cast<double>(length) * noise_density);
  return std::clamp<int64_t>(static_cast<int64_t>(wanted), 1, length - 1);
}

int64_t SpanCorruption::num_spans(int64_t length) const {
  const int64_t noise = num_noise_tokens(length);
  const auto wanted = std::nearbyint(static_cast<double>(noise) / mean_span_length);
  return std::clamp<int64_t>(static_cast<int64_t>(wanted), 1, std::min(noise, length - noise));
}

int64_t SpanCorruption::input_length(int64_t length) const {
  return length - num_noise_tokens(length) + num_spans(length) + 1;
}

int64_t SpanCorruption::target_length(int64_t length) const {
  return num_noise_tokens(length) + num_spans(length) + 1;
}

int64_t SpanCorruption::text_length(int64_t input) const {
  int64_t length = std::max<int64_t>(2, input);
  while (length > 2 && input_length(length) > input) --length;
  if (input_length(length) > input) {
    fail<UsageError>("models", "rows of {} tokens hold no text; expected at least {}", input,
                     input_length(length));
  }
  while (input_length(length + 1) <= input) ++length;
  // T5's own code does this as well, to keep targets no longer than inputs at this density.
  if (noise_density == 0.5 && target_length(length) > input) --length;
  return length;
}

CorruptedText corrupt_spans(const at::Tensor& ids, const SpanCorruption& corruption,
                            const nn::Context& context) {
  const int64_t B = ids.size(0), T = ids.size(1);
  const int64_t noise = corruption.num_noise_tokens(T), spans = corruption.num_spans(T);
  internal_check(std::ssize(corruption.sentinel_ids) >= spans, "models",
                 "{} sentinels for {} spans", corruption.sentinel_ids.size(), spans);
  const auto host = comm::download(ids).to(at::kLong).contiguous();
  const auto keys = row_keys(host, kTextSpanSite, context);
  auto inputs = at::empty({B, corruption.input_length(T)}, at::kLong);
  auto labels = at::empty({B, corruption.target_length(T)}, at::kLong);
  const auto* from = host.const_data_ptr<int64_t>();
  auto* input = inputs.data_ptr<int64_t>();
  auto* label = labels.data_ptr<int64_t>();
  for (const uint64_t key : keys) {
    const auto asked = cut(noise, spans, hash_combine(key, 0));
    const auto left = cut(T - noise, spans, hash_combine(key, 1));
    for (size_t span = 0; span < asked.size(); ++span) {
      input = std::copy_n(from, left[span], input);
      from += left[span];
      *input++ = *label++ = corruption.sentinel_ids[span];
      label = std::copy_n(from, asked[span], label);
      from += asked[span];
    }
    *input++ = *label++ = corruption.end_id;
  }
  return {inputs, labels};
}

}  // namespace convoy::masking
