#include "convoy/models/session/session_input.h"
#include "convoy/models/session/session_bodies.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "convoy/comm/device.h"
#include "convoy/masking/item_masking.h"
#include "convoy/models/ranks_of.h"
#include "convoy/models/sasrec/hstu.h"
#include "convoy/models/session/asked_items.h"
#include "convoy/models/session/event_weights.h"
#include "convoy/models/session/replaced_items.h"
#include "convoy/models/session/session_targets.h"
#include "convoy/models/session/unknown_targets.h"
#include "convoy/models/xlnet/xlnet.h"
#include "convoy/nn/layers/dropout.h"
#include "convoy/nn/layers/layers.h"

// Shapes: B rows, T positions, D = d_model.
namespace convoy::models {

namespace {

using nn::Init;
using nn::Mode;

constexpr double kMaskedItemRange = 0.001;

/// Returns the columns padded to `length` positions.
nn::Bundle padded_to(const nn::Bundle& in, int64_t length, const SessionConfig& config) {
  nn::Bundle out;
  for (const auto& [name, column] : in) {
    const auto feature = std::ranges::find(config.features, name, &SessionFeature::name);
    const bool of_session = feature != config.features.end() && !feature->is_list;
    if (of_session || column.dim() < 2) {
      out[name] = column;
      continue;
    }
    std::vector<int64_t> sizes(2 * static_cast<size_t>(column.dim() - 1), 0);
    sizes.back() = length - column.size(1);
    out[name] = at::constant_pad_nd(column, sizes, 0);
  }
  return out;
}

}  // namespace

SessionInput::SessionInput(const SessionConfig& config) : SessionEmbeddings(config, "input") {
  const int64_t D = config.d_model;
  if (config.permutes()) {
    query_ = declare({"transformer.mask_emb", {1, 1, D}, Init::normal(config.initializer_range)});
  } else if (config.has_masked_item()) {
    masked_item_ = declare({"masked_item_embedding", {D}, Init::normal(kMaskedItemRange)});
  }
}

nn::Bundle SessionInput::forward(const nn::Bundle& columns, const nn::Context& context) {
  const bool appends = config_.masks_items() && context.mode == Mode::Predict;
  // The length of attended padding must not depend on other rows of the batch.
  const int64_t longest = columns.at(config_.item_feature).size(1);
  const bool fixed = config_.attend_padding && config_.has_masked_item();
  const int64_t at_least =
      context.mode == Mode::Predict ? config_.prediction_length() : config_.max_length;
  const int64_t length = (fixed ? std::max(longest, at_least) : longest) + (appends ? 1 : 0) +
                         (config_.has_cls() ? 1 : 0);
  const auto in = length > longest ? padded_to(columns, length, config_) : columns;
  const auto& ids = in.at(config_.item_feature);
  nn::Bundle out{{"item_ids", ids}, {"lengths", in.at("lengths")}};
  for (const auto& target : config_.targets) {
    if (context.mode == Mode::Predict) break;
    out[SessionTargets::answer(target.column)] = in.at(target.column);
  }
  for (const char* name : {kExcluded, kMissed}) {  // as they are: not as long as sessions
    const auto found = columns.find(name);
    if (context.mode == Mode::Evaluate && found != columns.end()) out[name] = found->second;
  }
  const auto ranks = ranks_of(ids, context);
  const auto known = loaded_items(config_, ids, context);
  const auto missed = missed_rows(known, columns, context);
  const auto before = loaded_context(columns, context);
  if (before.defined()) out[kNumContext] = columns.at(kNumContext);
  if (context.mode == Mode::Train && !config_.event_weights.column.empty()) {
    out[kEventWeights] = event_weights(config_.event_weights, in);
  }
  const auto unknown = unknown_targets(config_, known, columns, context);
  auto read = ids, read_on_host = known;  // without a target that nothing but a ranking asks for
  if (unknown.defined()) {
    out[kUnknownTarget] = comm::upload(unknown, ids.device());
    read_on_host = without_last(known, unknown);
    // A masked target's vector stays in its place.
    if (!config_.masks_items()) read = without_last(ids, out.at(kUnknownTarget));
  }
  auto x = with_cls(joined(in, ranks, context), read, ranks, context);
  at::Tensor asked;  // [B, T] bool: positions that predict
  if (config_.permutes()) {
    const auto order = permutation(known, before, context);
    asked = order.asked;
    out["visible"] = comm::upload(
        seen_by_cls(order.visible, known, read_on_host, context).contiguous(), ids.device());
    const auto nothing = at::zeros(x.sizes(), x.options());
    out["query"] = nn::dropout(nn::add_vector(nothing, query_), config_.dropout, context, 1);
  } else if (config_.masks_items()) {
    asked = asked_items(config_, known, context, before);
    const auto mask = comm::upload(asked, ids.device());
    x = nn::replace_rows(x, ranks.own(mask), masked_item_);
    if (!config_.attend_padding) {
      auto real = (ids != 0).logical_or_(mask);
      if (config_.has_cls()) real.logical_or_(cls_mask(ids, context));
      real.select(1, 0).fill_(true);  // a row of padding only must have something to look at
      out["key_mask"] = real;
    }
  } else if (context.mode != Mode::Predict || ids.is_cpu()) {
    asked = asked_items(config_, known, context, before);
  }
  if (config_.sees_targets()) {
    x = seen_from_both_sides(x, read_on_host, context);
    if (!config_.attend_padding) out["key_mask"] = items_of(read, context);
  }
  if (config_.detects() && context.mode == Mode::Train) {  // who reads them again
    for (const auto& feature : config_.features) {
      out[ReplacedItems::column_of(feature.name)] = in.at(feature.name);
    }
  }
  if (asked.defined()) {
    if (missed.defined()) asked = asked.logical_and(missed.logical_not().unsqueeze(1));
    const auto places = asked.reshape({-1}).nonzero().squeeze(1);  // on the host
    out["asked"] = comm::upload(places, ids.device());
  }
  out["hidden"] = add_positions(x, ids, ranks, context);
  if (config_.reads_times()) put_times(out, in, read, context);
  if (session_body(config_.body).positions == BodyPositions::InLayers) {
    put_xlnet_guides(out, /*causal=*/!config_.masks_items() && !config_.sees_targets());
    drop_distances(out, config_.dropout, config_.num_positions(), context);
  }
  return out;
}

void SessionInput::put_times(nn::Bundle& out, const nn::Bundle& in, const at::Tensor& read,
                             const nn::Context& context) const {
  const auto& ids = in.at(config_.item_feature);
  const auto& times = in.at(config_.time_feature);
  auto asked = times;
  if (config_.hstu_time == "next") {
    const auto last = (masking::session_lengths(ids) - 1).unsqueeze(1);
    const auto places = at::arange(ids.size(1), ids.options());
    auto own = places == last;  // positions whose next event has no time, or none that is known
    if (context.mode == Mode::Evaluate && config_.eval_time == "last") {
      own.logical_or_(places == last - 1);
    }
    const auto request = in.find(kRequestTime);
    const bool known = context.mode == Mode::Predict && request != in.end();
    const auto at_last = known ? request->second.unsqueeze(1).expand_as(times) : times;
    const auto next = at::constant_pad_nd(times.narrow(1, 1, times.size(1) - 1), {0, 1}, 0);
    asked = at::where(own, at_last, next);
  }
  out["time_buckets"] = time_buckets(asked, times);
  out["key_mask"] = items_of(read, context);
}

at::Tensor SessionInput::items_of(const at::Tensor& ids, const nn::Context& context) const {
  const auto items = ids != 0;
  return config_.has_cls() ? items.logical_or(cls_mask(ids, context)) : items;
}

at::Tensor SessionInput::seen_from_both_sides(const at::Tensor& x, const at::Tensor& known,
                                              const nn::Context& context) const {
  auto seen = items_of(known, context);
  if (context.mode == Mode::Train && !config_.train_on_last_item_seq_only) {
    seen = seen.logical_xor(known != 0).logical_or(has_successor(known));
  }
  const auto blank = comm::upload(seen.logical_not(), x.device());
  const auto out = nn::replace_rows(x, blank, masked_item_);
  if (context.mode == Mode::Predict || x.size(1) < config_.max_length) return out;
  auto keeps = at::ones({1, x.size(1), 1}, x.options());
  keeps.select(1, config_.max_length - 1).zero_();
  auto whole = blank;  // in prediction cls may stand there, too
  if (config_.has_cls() && context.mode == Mode::Evaluate) {
    whole = whole.logical_or(comm::upload(cls_mask(known, context), x.device()));
  }
  return at::where(whole.unsqueeze(2), out, out * keeps);
}

at::Tensor SessionInput::seen_by_cls(const at::Tensor& visible, const at::Tensor& known,
                                     const at::Tensor& read, const nn::Context& context) const {
  if (!config_.has_cls()) return visible;
  const auto all = cls_mask(known, context).unsqueeze(2).logical_and((read != 0).unsqueeze(1));
  return visible.logical_or(all);
}

masking::ItemPermutation SessionInput::permutation(const at::Tensor& known,
                                                   const at::Tensor& before,
                                                   const nn::Context& context) const {
  if (context.mode != Mode::Train) return masking::without_items(known, asked_item(known, context));
  return masking::training_permutation(known, permutation_options(config_), context, before);
}

}  // namespace convoy::models
