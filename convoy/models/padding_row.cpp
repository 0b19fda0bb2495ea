#include "convoy/models/padding_row.h"

#include <ATen/ATen.h>

#include "convoy/base/error.h"
#include "convoy/base/json_number.h"

namespace convoy::models {

std::optional<int64_t> padding_row(const Json& pad_token_id, int64_t num_ids) {
  if (pad_token_id.is_null()) return std::nullopt;
  const auto id = whole_number<int64_t>(pad_token_id);
  if (!id || *id < -num_ids || *id >= num_ids) {
    fail<UsageError>(
        "models", "pad_token_id = {}, but the model's vocab_size is {}; expected {} to {}, or none",
        pad_token_id.dump(), num_ids, -num_ids, num_ids - 1);
  }
  return *id < 0 ? *id + num_ids : *id;
}

at::Tensor untrained_at(std::optional<int64_t> padding, const at::Tensor& ids, const at::Tensor& x,
                        const nn::TensorRanks& ranks) {
  if (!padding || !x.requires_grad()) return x;
  const auto own = ranks.own(ids) == *padding;
  return at::where(own.reshape(x.sizes().slice(0, x.dim() - 1)).unsqueeze(-1), x.detach(), x);
}

}  // namespace convoy::models
