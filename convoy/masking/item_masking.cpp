#include "convoy/masking/item_masking.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <vector>

#include "convoy/comm/device.h"
#include "convoy/masking/row_keys.h"

namespace convoy::masking {

namespace {

constexpr uint64_t kMaskSite = 0x6d61736b;  // keeps these draws apart from those of dropout
constexpr uint64_t kSpanSite = 0x7370616e, kOrderSite = 0x6f726472;
constexpr uint64_t kChoice = uint64_t{1} << 40;  // counter of a row's choice, beyond all positions

/// Makes sure that, of the `places` of a row, at least one is chosen and one is not; none where
/// there is only one place.
void leave_some(bool* chosen, const std::vector<int64_t>& places, uint64_t key) {
  size_t count = 0;
  for (const int64_t t : places) count += chosen[t];
  if (places.size() < 2) {
    for (const int64_t t : places) chosen[t] = false;
  } else if (count == 0 || count == places.size()) {
    const int64_t one = draw_below(std::ssize(places), key, kChoice);
    auto& changed = chosen[places[static_cast<size_t>(one)]];
    changed = !changed;
  }
}

/// Number of items of context of a row.
int64_t first_of(const at::Tensor& num_context, int64_t row) {
  return num_context.defined() ? num_context.const_data_ptr<int64_t>()[row] : 0;
}

/// Places of a row's items from `first` on.
std::vector<int64_t> places_of(const int64_t* item, int64_t first, int64_t length) {
  std::vector<int64_t> out;
  for (int64_t t = first; t < length; ++t) {
    if (item[t] != 0) out.push_back(t);
  }
  return out;
}

void choose_spans(bool* chosen, const std::vector<int64_t>& places,
                  const PermutationOptions& options, uint64_t key) {
  const auto count = static_cast<int64_t>(places.size());
  uint64_t draw = 0;
  for (int64_t begin = 0; begin < count;) {
    const int64_t span = 1 + draw_below(options.max_span, key, draw++);
    const auto stretch = static_cast<int64_t>(static_cast<double>(span) / options.probability);
    const int64_t first = begin + draw_below(stretch - span + 1, key, draw++);
    for (int64_t i = first; i < std::min(first + span, count); ++i) {
      chosen[places[static_cast<size_t>(i)]] = true;
    }
    begin += stretch;
  }
}

}  // namespace

at::Tensor session_lengths(const at::Tensor& ids) {
  return ((ids != 0) * at::arange(1, ids.size(1) + 1, ids.options())).amax(1);
}

at::Tensor last_item_mask(const at::Tensor& ids) {
  auto lengths = session_lengths(ids);
  auto last = at::arange(ids.size(1), ids.options()) == (lengths - 1).unsqueeze(1);
  return last.logical_and_((lengths > 1).unsqueeze(1));
}

at::Tensor training_mask(const at::Tensor& ids, double probability, const nn::Context& context,
                         const at::Tensor& num_context) {
  auto host = comm::download(ids).contiguous();
  auto mask = at::zeros(host.sizes(), at::kBool);
  const auto* item = host.data_ptr<int64_t>();
  bool* out = mask.data_ptr<bool>();
  const int64_t length = host.size(1);
  int64_t row = 0;
  for (const uint64_t key : row_keys(host, kMaskSite, context)) {
    const auto places = places_of(item, first_of(num_context, row++), length);
    for (const int64_t t : places) {
      out[t] = uniform01(key, static_cast<uint64_t>(t)) < probability;
    }
    leave_some(out, places, key);
    item += length;
    out += length;
  }
  return mask.to(ids.device());
}

ItemPermutation training_permutation(const at::Tensor& ids, const PermutationOptions& options,
                                     const nn::Context& context, const at::Tensor& num_context) {
  const auto host = comm::download(ids).contiguous();
  const int64_t rows = host.size(0), length = host.size(1);
  auto asked = at::zeros(host.sizes(), at::kBool);
  auto order = at::zeros(host.sizes(), at::kDouble);
  const auto spans = row_keys(host, kSpanSite, context);
  const auto orders = row_keys(host, kOrderSite, context);
  for (int64_t row = 0; row < rows; ++row) {
    const auto places =
        places_of(host.data_ptr<int64_t>() + row * length, first_of(num_context, row), length);
    bool* chosen = asked.data_ptr<bool>() + row * length;
    double* stands = order.data_ptr<double>() + row * length;
    const uint64_t key = spans[static_cast<size_t>(row)];
    choose_spans(chosen, places, options, key);
    leave_some(chosen, places, key);
    for (const int64_t t : places) {
      if (!chosen[t] && !options.all) continue;  // before all others
      stands[t] = 1 + uniform01(orders[static_cast<size_t>(row)], static_cast<uint64_t>(t));
    }
  }
  auto visible = order.unsqueeze(1) < order.unsqueeze(2);
  if (!options.all) visible = visible.logical_or(asked.logical_not().unsqueeze(1));
  visible = visible.logical_and((host != 0).unsqueeze(1));
  return {asked.to(ids.device()), visible.to(ids.device())};
}

ItemPermutation without_items(const at::Tensor& ids, const at::Tensor& asked) {
  const auto seen = (ids != 0).logical_and(asked.logical_not()).unsqueeze(1);
  return {asked, seen.expand({-1, ids.size(1), -1})};
}

}  // namespace convoy::masking
