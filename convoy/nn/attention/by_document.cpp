#include "convoy/nn/attention/by_document.h"

#include <ATen/ATen.h>

#include <vector>

#include "convoy/base/error.h"
#include "convoy/nn/attention/flash_attention.h"
#include "convoy/nn/documents.h"

// Shapes: B rows, T positions, H heads, K key heads, E width of a head, L positions of a document.
namespace convoy::nn {

namespace {

/// Parts [1, H, L, E] of x [B, H, T, E] by document. Backward concatenates their gradients once for
/// all.
std::vector<at::Tensor> parts_of(const at::Tensor& x, const std::vector<DocumentPlace>& places) {
  std::vector<int64_t> lengths;
  for (const auto& place : places) lengths.push_back(place.length);
  auto parts = x.transpose(1, 2).flatten(0, 1).split_with_sizes(lengths, 0);
  for (auto& part : parts) part = part.transpose(0, 1).unsqueeze(0);
  return parts;
}

/// Options and context of one document.
AttentionOptions options_of(const AttentionOptions& all, const DocumentPlace& place) {
  auto out = all;
  out.documents = at::Tensor();
  out.first_position = place.begin;
  out.any_length = true;
  if (all.key_mask.defined()) {
    out.key_mask = all.key_mask.narrow(0, place.row, 1).narrow(1, place.begin, place.length);
  }
  return out;
}

Context context_of(const Context& all, const DocumentPlace& place) {
  auto out = all;
  if (all.samples.defined()) out.samples = all.samples.narrow(0, place.row, 1);
  return out;
}

}  // namespace

at::Tensor attend_by_document(Attend attend, const at::Tensor& q, const at::Tensor& k,
                              const at::Tensor& v, const AttentionOptions& options,
                              const Context& context) {
  const int64_t B = q.size(0), T = q.size(2);
  internal_check(!options.ranks.shares() && !options.bias.defined(), "nn",
                 "{}: documents over context ranks, or with a bias", options.name);
  internal_check(options.documents.size(0) == B && options.documents.size(1) == T, "nn",
                 "{}: documents of other rows", options.name);
  const auto places = places_of_documents(options.documents);
  if (are_whole_rows(places, options.documents)) {
    auto plain = options;
    plain.documents = at::Tensor();
    return attend(q, k, v, plain, context);
  }
  const auto at_once = flash_attention(q, k, v, options, context, places);
  if (at_once.defined()) return at_once;
  const auto queries = parts_of(q, places), keys = parts_of(k, places);
  const auto values = parts_of(v, places);
  std::vector<at::Tensor> mixed;  // [L, H, E]
  for (size_t i = 0; i < places.size(); ++i) {
    const auto& place = places[i];
    const auto out = place.is_padding
                         ? at::zeros_like(queries[i])
                         : attend(queries[i], keys[i], values[i], options_of(options, place),
                                  context_of(context, place));
    mixed.push_back(out.squeeze(0).transpose(0, 1));
  }
  return at::cat(mixed).unflatten(0, {B, T}).transpose(1, 2);
}

}  // namespace convoy::nn
