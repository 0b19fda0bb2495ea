// Torch's flash kernel as it is called by itself: rows, or sequences that lie end to end, and a
// window. Each sequence is the processor's attention with a mask.
#include <ATen/ATen.h>
#include <torch/library.h>

#include <limits>

#include "tests/fake_gpu/attention.h"

// Shapes: B rows, T queries, S keys of a row or sequence, H heads, K key heads, E width of a head.
namespace convoy::fake_gpu {

namespace {

/// Keys beside its own place that a query sees, on each side; below 0: all.
struct Window {
  int64_t before = -1, behind = -1;
};

/// The options of the kernel; see mha_varlen_fwd of
/// aten/src/ATen/native/transformers/cuda/flash_attn/flash_api.cpp.
struct Call {
  int64_t longest_q, longest_k;
  Window window;
  std::optional<double> scale;

  Call(int64_t most_q, int64_t most_k, bool causal, std::optional<double> factor,
       std::optional<int64_t> before, std::optional<int64_t> behind)
      : longest_q(most_q),
        longest_k(most_k),
        window{before.value_or(-1), behind.value_or(-1)},
        scale(factor) {
    if (causal && longest_q > 1) window.behind = 0;
    if (window.before >= longest_k) window.before = -1;
    if (window.behind >= longest_k) window.behind = -1;
  }
};

void check_ends(const at::Tensor& ends, const at::Tensor& x, int64_t longest) {
  TORCH_CHECK(ends.scalar_type() == at::kInt, "cu_seqlens must have dtype int32");
  TORCH_CHECK(ends.is_contiguous() && ends.numel() > 1, "batch size must be positive");
  TORCH_CHECK(ends.device() == x.device(), "cu_seqlens must be on CUDA");
  TORCH_CHECK(longest > 0, "the longest sequence is empty");
}

void check_inputs(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                  int64_t dims) {
  for (const auto* x : {&query, &key, &value}) {
    TORCH_CHECK(x->dim() == dims, "flash attention: expected ", dims, " dimensions");
    TORCH_CHECK(x->stride(-1) == 1, "Input tensor must have contiguous last dimension");
    TORCH_CHECK(x->scalar_type() == at::kHalf || x->scalar_type() == at::kBFloat16,
                "FlashAttention only support fp16 and bf16 data type");
    TORCH_CHECK(x->scalar_type() == query.scalar_type(), "query and key must have the same dtype");
    TORCH_CHECK(x->size(-1) == query.size(-1) && x->size(-1) % 8 == 0 && x->size(-1) <= 256,
                "head_size must be a multiple of 8, at most 256");
  }
  TORCH_CHECK(query.size(-2) % key.size(-2) == 0,
              "Number of heads in key/value must divide number of heads in query");
}

/// Stretches of queries and keys that belong together.
struct Sequence {
  int64_t query, T, key, S;
};

/// Sequences that begin and end at `ends` on the host, or rows of T and S.
std::vector<Sequence> sequences_of(const at::Tensor& ends_q, const at::Tensor& ends_k,
                                   const at::Tensor& query, const at::Tensor& key,
                                   const Call& call) {
  std::vector<Sequence> out;
  if (!ends_q.defined()) {
    const int64_t T = query.size(1), S = key.size(1);
    for (int64_t row = 0; row < query.size(0); ++row) out.push_back({row * T, T, row * S, S});
    return out;
  }
  const auto* q = ends_q.const_data_ptr<int>();
  const auto* k = ends_k.const_data_ptr<int>();
  for (int64_t i = 0; i + 1 < ends_q.numel(); ++i) {
    out.push_back({q[i], q[i + 1] - q[i], k[i], k[i + 1] - k[i]});
    const auto& last = out.back();
    TORCH_CHECK(last.T >= 0 && last.T <= call.longest_q && last.S >= 0 && last.S <= call.longest_k,
                "fake_gpu: a sequence is longer than the longest, which a GPU does not tell");
    TORCH_CHECK(q[i + 1] <= query.size(0) && k[i + 1] <= key.size(0),
                "fake_gpu: a sequence ends behind the tensor, which a GPU does not tell");
  }
  return out;
}

/// [1, 1, T, S] to be added to scores; the last query's own place is the last key.
at::Tensor mask_of(int64_t T, int64_t S, const Window& window) {
  auto hidden = at::zeros({T, S}, at::kBool);
  const auto place = (at::arange(T, at::kLong) + (S - T)).unsqueeze(1);
  const auto key = at::arange(S, at::kLong).unsqueeze(0);
  if (window.before >= 0) hidden.logical_or_(key < place - window.before);
  if (window.behind >= 0) hidden.logical_or_(key > place + window.behind);
  auto out = at::zeros({T, S}, at::kFloat);
  return out.masked_fill_(hidden, -std::numeric_limits<float>::infinity()).view({1, 1, T, S});
}

/// [positions, heads, E]
at::Tensor flat(const at::Tensor& x) {
  return x.dim() == 4 ? x.reshape({-1, x.size(2), x.size(3)}) : x;
}

/// The part [1, heads, length, E] of x [positions, heads, E].
at::Tensor part(const at::Tensor& x, int64_t begin, int64_t length) {
  return x.narrow(0, begin, length).transpose(0, 1).unsqueeze(0);
}

/// Memory with NaN, which stands for what was there before.
at::Tensor unwritten(at::IntArrayRef sizes, const at::TensorOptions& options) {
  return at::full(sizes, std::numeric_limits<float>::quiet_NaN(), options);
}

/// Returns the result, shaped as the queries, and log-sum-exps [H, queries].
Tensors compute(const Tensors& in, const Call& call) {
  const auto q = flat(in[0]), k = flat(in[1]), v = flat(in[2]);
  auto out = unwritten(q.sizes(), q.options());
  auto sums = unwritten({q.size(1), q.size(0)}, q.options().dtype(at::kFloat));
  for (const auto& [query, T, key, S] : sequences_of(in[3], in[4], in[0], in[1], call)) {
    if (T == 0) continue;
    const auto found = attend_on_host(
        {part(q, query, T), part(k, key, S), part(v, key, S), mask_of(T, S, call.window)}, false,
        call.scale);
    part(out, query, T).copy_(found[0]);
    sums.narrow(1, query, T).copy_(found[1].squeeze(0));
  }
  return {out.view_as(in[0]), sums};
}

Tensors compute_backward(const Tensors& in, const Call& call) {
  const auto grad = flat(in[0]), q = flat(in[1]), k = flat(in[2]), v = flat(in[3]);
  const auto out = flat(in[4]), &sums = in[5];
  auto dq = unwritten(q.sizes(), q.options()), dk = unwritten(k.sizes(), k.options());
  auto dv = unwritten(v.sizes(), v.options());
  for (const auto& [query, T, key, S] : sequences_of(in[6], in[7], in[1], in[2], call)) {
    if (T == 0) continue;
    const auto logarithms = sums.narrow(1, query, T).t().contiguous().t().unsqueeze(0);
    const auto found = attend_on_host_backward(
        {part(grad, query, T), part(q, query, T), part(k, key, S), part(v, key, S),
         part(out, query, T), logarithms, mask_of(T, S, call.window)},
        false, call.scale);
    part(dq, query, T).copy_(found[0]);
    part(dk, key, S).copy_(found[1]);
    part(dv, key, S).copy_(found[2]);
  }
  return {dq.view_as(in[1]), dk.view_as(in[2]), dv.view_as(in[3])};
}

at::Tensor nothing() {
  return at::empty({0});
}

using Result = std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor, at::Tensor>;

Result flash_rows(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                  const std::optional<at::Tensor>& ends_q, const std::optional<at::Tensor>& ends_k,
                  c10::SymInt longest_q, c10::SymInt longest_k, double rate, bool causal, bool,
                  std::optional<double> scale, std::optional<c10::SymInt> before,
                  std::optional<c10::SymInt> behind, const std::optional<at::Tensor>& used,
                  const std::optional<at::Tensor>& slopes, const std::optional<at::Tensor>& pages,
                  std::optional<int64_t>) {
  TORCH_CHECK(rate == 0 && !used && !slopes && !pages, "fake_gpu: options that nobody passes");
  const auto number = [](const std::optional<c10::SymInt>& x) {
    return x ? std::optional(x->expect_int()) : std::nullopt;
  };
  check_inputs(query, key, value, ends_q ? 3 : 4);
  if (ends_q) {
    check_ends(*ends_q, query, longest_q.expect_int());
    check_ends(*ends_k, key, longest_k.expect_int());
  }
  const Call call(ends_q ? longest_q.expect_int() : query.size(1),
                  ends_k ? longest_k.expect_int() : key.size(1), causal, scale, number(before),
                  number(behind));
  const auto out =
      run_on_host("aten::_flash_attention_forward",
                  {query, key, value, ends_q.value_or(at::Tensor()), ends_k.value_or(at::Tensor())},
                  [&](const Tensors& in) { return compute(in, call); });
  return {out[0], out[1], nothing(), nothing(), nothing()};
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> flash_rows_backward(
    const at::Tensor& grad, const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
    const at::Tensor& out, const at::Tensor& sums, const at::Tensor& ends_q,
    const at::Tensor& ends_k, c10::SymInt longest_q, c10::SymInt longest_k, double, bool causal,
    const at::Tensor&, const at::Tensor&, std::optional<double> scale,
    std::optional<c10::SymInt> before, std::optional<c10::SymInt> behind) {
  const auto number = [](const std::optional<c10::SymInt>& x) {
    return x ? std::optional(x->expect_int()) : std::nullopt;
  };
  const Call call(ends_q.defined() ? longest_q.expect_int() : query.size(1),
                  ends_k.defined() ? longest_k.expect_int() : key.size(1), causal, scale,
                  number(before), number(behind));
  const auto grads = run_on_host("aten::_flash_attention_backward",
                                 {grad, query, key, value, out, sums, ends_q, ends_k},
                                 [&](const Tensors& in) { return compute_backward(in, call); });
  return {grads[0], grads[1], grads[2]};
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, CUDA, m) {
  m.impl("_flash_attention_forward", flash_rows);
  m.impl("_flash_attention_backward", flash_rows_backward);
}

}  // namespace convoy::fake_gpu
