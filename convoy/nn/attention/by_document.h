#pragma once

#include "convoy/nn/attention/attention.h"

namespace convoy::nn {

/// attention() of rows without documents.
using Attend = at::Tensor (*)(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                              const AttentionOptions& options, const Context& context);

/// attention() of q [B, H, T, E] and k, v [B, K, T, E] with options.documents: `attend` for each
/// document, or all at once where flash_attention() can.
at::Tensor attend_by_document(Attend attend, const at::Tensor& q, const at::Tensor& k,
                              const at::Tensor& v, const AttentionOptions& options,
                              const Context& context);

}  // namespace convoy::nn
