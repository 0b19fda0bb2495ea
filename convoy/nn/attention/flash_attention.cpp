#include "convoy/nn/attention/flash_attention.h"

#include <ATen/ATen.h>
#include <ATen/Context.h>

#include <algorithm>
#include <atomic>
#include <optional>

#include "convoy/comm/device.h"
#include "convoy/gpu/failures.h"
#include "convoy/nn/attention/seen.h"
#include "convoy/nn/device_kernel.h"

// Shapes: B rows, T positions, S positions looked at, H heads, K key heads, E width of a head;
// N = B x T.
namespace convoy::nn {

namespace {

constexpr int kAmpere = 8;
constexpr int64_t kWidest = 256;
// Padding computes as documents no longer than this, a tile of the kernel.
constexpr int64_t kTile = 128;
// The kernel's backward keeps the queries' gradients in fp32, and a tile more of each sequence: a
// call has no more sequences than these bytes hold tiles, and than a GPU's grid can count.
constexpr int64_t kMostRoom = int64_t{1} << 30, kMostSequences = 65535;

/// Sequences of neighbouring positions: documents, and padding in stretches.
struct Sequences {
  std::vector<int64_t> ends{0};  ///< begins with 0, where the first one begins
  int64_t longest = 0;

  void add(int64_t length) {
    ends.push_back(ends.back() + length);
    longest = std::max(longest, length);
  }
};

/// Sequences of all rows in their order, at most `most` in each group.
std::vector<Sequences> sequences_of(const std::vector<DocumentPlace>& places, int64_t most) {
  std::vector<Sequences> out(1);
  const auto add = [&](int64_t length) {
    if (std::ssize(out.back().ends) > most) out.emplace_back();
    out.back().add(length);
  };
  for (const auto& place : places) {
    if (!place.is_padding) add(place.length);
    for (int64_t left = place.is_padding ? place.length : 0; left > 0; left -= kTile) {
      add(std::min(left, kTile));
    }
  }
  return out;
}

/// Tensor of a kind on `device` that follows from these numbers, made once for all layers.
at::Tensor kept_numbers(at::Device device, Kept kind, const std::vector<int64_t>& numbers,
                        const std::function<at::Tensor()>& make) {
  std::vector<int64_t> key{static_cast<int64_t>(kind)};
  key.insert(key.end(), numbers.begin(), numbers.end());
  return kept_on(device, std::move(key), make);
}

/// [sequences + 1] int32 on `device`.
at::Tensor ends_on(at::Device device, const Sequences& all) {
  return kept_numbers(device, Kept::SequenceEnds, all.ends,
                      [&] { return at::tensor(all.ends, at::kInt); });
}

/// [N, 1, 1] bool on `device`: which positions are padding; undefined where none is.
at::Tensor padding_on(at::Device device, const std::vector<DocumentPlace>& places) {
  std::vector<int64_t> key;  // lengths of documents and padding in turns
  bool was_padding = false, has_padding = false;
  key.push_back(0);
  for (const auto& place : places) {
    if (place.is_padding != was_padding) key.push_back(0);
    key.back() += place.length;
    was_padding = place.is_padding;
    has_padding = has_padding || place.is_padding;
  }
  if (!has_padding) return {};
  return kept_numbers(device, Kept::Padding, key, [&] {
    std::vector<at::Tensor> flags;
    for (size_t i = 0; i < key.size(); ++i) flags.push_back(at::full({key[i]}, i % 2 == 1));
    return at::cat(flags).view({-1, 1, 1});
  });
}

bool takes(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
           const AttentionOptions& options, const Context& context) {
  if (!q.is_cuda() || !options.causal || options.ranks.shares()) return false;
  if (options.key_mask.defined() || options.bias.defined() || options.sinks.defined()) return false;
  if (options.cap != 0) return false;
  if (options.dropout > 0 && context.mode == Mode::Train) return false;
  const auto dtype = q.scalar_type();
  if (dtype != at::kBFloat16 && dtype != at::kHalf) return false;
  if (k.scalar_type() != dtype || v.scalar_type() != dtype) return false;
  const int64_t E = q.size(3);
  if (E % 8 != 0 || E > kWidest || v.size(3) != E) return false;
  // Deterministic runs take no fused attention.
  if (!at::globalContext().userEnabledFlashSDP()) return false;
  return comm::compute_capability(q.device()) >= kAmpere;
}

/// Heads behind positions: [B, T, heads, E], whose last stride is 1.
at::Tensor by_position(const at::Tensor& x) {
  const auto out = x.transpose(1, 2);
  return out.stride(3) == 1 ? out : out.contiguous();
}

/// Torch's kernel, of rows, or of sequences that begin and end at `ends`.
at::Tensor run_flash(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                     const std::optional<at::Tensor>& ends, int64_t longest_q, int64_t longest_k,
                     const AttentionOptions& options) {
  return std::get<0>(at::_flash_attention_forward(
      q, k, v, ends, ends, longest_q, longest_k, /*dropout_p=*/0.0, /*is_causal=*/true,
      /*return_debug_mask=*/false, scale_of(options, q), keys_before(options, longest_k),
      /*window_size_right=*/0));
}

at::Tensor of_documents(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                        const AttentionOptions& options, const std::vector<DocumentPlace>& places) {
  const int64_t unit = q.size(3) <= 128 ? 32 : 64;  // to whose multiples the kernel pads heads
  const int64_t width = (q.size(3) + unit - 1) / unit * unit;
  const int64_t room = kTile * q.size(1) * width * static_cast<int64_t>(sizeof(float));
  const int64_t most = std::clamp<int64_t>(kMostRoom / room, 1, kMostSequences);
  const auto calls = sequences_of(places, most);
  std::vector<int64_t> lengths;
  for (const auto& call : calls) lengths.push_back(call.ends.back());
  const auto parts_of = [&](const at::Tensor& x) {
    const auto flat = by_position(x).flatten(0, 1);
    return calls.size() == 1 ? std::vector{flat} : flat.split_with_sizes(lengths, 0);
  };
  const auto Q = parts_of(q), K = parts_of(k), V = parts_of(v);
  std::vector<at::Tensor> parts;
  for (size_t i = 0; i < calls.size(); ++i) {
    parts.push_back(run_flash(Q[i], K[i], V[i], ends_on(q.device(), calls[i]), calls[i].longest,
                              calls[i].longest, options));
  }
  auto out = parts.size() == 1 ? parts.front() : at::cat(parts);
  const auto padding = padding_on(q.device(), places);
  if (padding.defined()) out = out.masked_fill(padding, 0);
  return out.unflatten(0, {q.size(0), q.size(2)});
}

}  // namespace

at::Tensor flash_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                           const AttentionOptions& options, const Context& context,
                           const std::vector<DocumentPlace>& places) {
  static std::atomic<bool> failed = false;
  if (failed || !takes(q, k, v, options, context)) return {};
  try {
    const auto out = places.empty() ? run_flash(by_position(q), by_position(k), by_position(v),
                                                std::nullopt, q.size(2), k.size(2), options)
                                    : of_documents(q, k, v, options, places);
    return out.transpose(1, 2);
  } catch (const c10::OutOfMemoryError&) {
    throw;
  } catch (const c10::Error& error) {
    gpu::check_device(q.device());
    failed = true;
    gpu::add_failed_kernel("flash_attention", error);
    return {};
  }
}

}  // namespace convoy::nn
