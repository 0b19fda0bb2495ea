#include "convoy/parallel/row_tables/torch/missed_updates.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "convoy/base/error.h"
#include "convoy/comm/device.h"

namespace convoy::parallel {

namespace {

/// Number of rows whose missed updates are applied together: copies of them fit the caches.
constexpr int64_t kRowsAtOnce = 1 << 13;

at::Tensor flat_rows(const at::Tensor& rows, int64_t begin, int64_t end) {
  return rows.narrow(0, begin, end - begin).view({-1});
}

}  // namespace

RowState RowState::select(const at::Tensor& index) const {
  RowState out{.weights = weights.index_select(0, index), .states = {}};
  for (const auto& state : states) out.states.push_back(state.index_select(0, index));
  return out;
}

void RowState::store(const at::Tensor& index, const RowState& rows) const {
  for (const auto& tensor : changing) tensor->about_to_change(index);
  at::Tensor(weights).index_copy_(0, index, rows.weights);
  for (size_t k = 0; k < states.size(); ++k) {
    at::Tensor(states[k]).index_copy_(0, index, rows.states[k]);
  }
}

optim::FlatRange RowState::stretch(int64_t begin, int64_t end) const {
  optim::FlatRange out{.weights = flat_rows(weights, begin, end), .grads = {}};
  for (const auto& state : states) out.states.push_back(flat_rows(state, begin, end));
  return out;
}

MissedUpdates::MissedUpdates(const optim::Optimizer& optimizer, int64_t num_rows)
    : optimizer_(optimizer), done_(static_cast<size_t>(num_rows)) {}

void MissedUpdates::note(const optim::StepNumbers& numbers, double weight_decay) {
  const double kept = static_cast<float>(1 - numbers.learning_rate * weight_decay);
  passed_.push_back({numbers, weight_decay, kept});
  log_kept_.push_back(log_kept_.back() + (kept > 0 ? std::log(kept) : 0));
  num_odd_.push_back(num_odd_.back() + (kept > 0 ? 0 : 1));
}

void MissedUpdates::took_part(const std::vector<int64_t>& rows) {
  for (const int64_t row : rows) done_[static_cast<size_t>(row)] = static_cast<int32_t>(now());
}

void MissedUpdates::forget() {
  std::fill(done_.begin(), done_.end(), 0);
  passed_.clear();
  log_kept_.assign(1, 0);
  num_odd_.assign(1, 0);
}

int64_t MissedUpdates::num_bytes() const {
  return static_cast<int64_t>(done_.size() * sizeof(int32_t));
}

void MissedUpdates::make_up_all(const RowState& table) {
  if (passed_.empty()) return;
  const auto count = static_cast<int64_t>(done_.size());
  for (int64_t begin = 0; begin < count; begin += kRowsAtOnce) {
    std::vector<int64_t> rows(static_cast<size_t>(std::min(kRowsAtOnce, count - begin)));
    std::iota(rows.begin(), rows.end(), begin);
    make_up(rows, table);
  }
  forget();
}

void MissedUpdates::make_up(const std::vector<int64_t>& rows, const RowState& table) {
  const at::NoGradGuard no_grad;
  std::vector<int64_t> late;
  for (const int64_t row : rows) {
    if (done_[static_cast<size_t>(row)] < now()) late.push_back(row);
  }
  for (auto begin = late.begin(); begin != late.end();) {
    const auto end = begin + std::min<std::ptrdiff_t>(kRowsAtOnce, late.end() - begin);
    make_up_late({begin, end}, table);
    begin = end;
  }
  took_part(late);
}

void MissedUpdates::make_up_late(std::vector<int64_t> late, const RowState& table) {
  std::stable_sort(late.begin(), late.end(), [this](int64_t a, int64_t b) {
    return done_[static_cast<size_t>(a)] < done_[static_cast<size_t>(b)];
  });
  const auto index = comm::upload(at::tensor(late, at::kLong), table.weights.device());
  const auto moves = comm::download(table.states.at(0).index_select(0, index).ne(0).any(1));
  const auto* moving = moves.const_data_ptr<bool>();
  std::vector<int64_t> movers, others;
  for (size_t i = 0; i < late.size(); ++i) (moving[i] ? movers : others).push_back(late[i]);
  make_up_alike(movers, optimizer_.updates_until_idle(), table);
  make_up_alike(others, 0, table);
}

void MissedUpdates::make_up_alike(const std::vector<int64_t>& rows, int64_t one_by_one,
                                  const RowState& table) {
  if (rows.empty()) return;
  const auto index = comm::upload(at::tensor(rows, at::kLong), table.weights.device());
  const auto some = table.select(index);
  std::vector<int64_t> from, to;
  std::vector<float> kept, idle_updates;  // of those that have some: the first ones
  for (const int64_t row : rows) {
    from.push_back(done_[static_cast<size_t>(row)]);
    to.push_back(std::min(from.back() + one_by_one, now()));
    if (to.back() == now()) continue;
    kept.push_back(static_cast<float>(kept_between(to.back(), now())));
    idle_updates.push_back(static_cast<float>(now() - to.back()));
  }
  replay(from, to, some);
  if (!kept.empty()) {
    const auto count = static_cast<int64_t>(kept.size());
    const auto column = [&](const std::vector<float>& values) {
      return comm::upload(at::tensor(values, at::kFloat).view({count, 1}), table.weights.device());
    };
    optim::FlatRange idle{.weights = some.weights.narrow(0, 0, count), .grads = {}};
    for (const auto& state : some.states) idle.states.push_back(state.narrow(0, 0, count));
    optimizer_.idle(idle, column(kept), column(idle_updates));
  }
  table.store(index, some);
}

/// Replays the updates of rows from step `from` to step `to`. Both ascend, so rows whose replays
/// overlap are neighbours.
void MissedUpdates::replay(const std::vector<int64_t>& from, const std::vector<int64_t>& to,
                           const RowState& rows) const {
  const auto grads = at::zeros({rows.weights.numel()}, rows.weights.options());
  const auto count = std::ssize(from);
  int64_t begin = 0, end = 0;
  for (int64_t at = from.front(); at < now(); ++at) {
    while (end < count && from[static_cast<size_t>(end)] <= at) ++end;
    while (begin < end && to[static_cast<size_t>(begin)] <= at) ++begin;
    if (begin == end) {
      if (end == count) break;
      at = from[static_cast<size_t>(end)] - 1;
      continue;
    }
    const auto& passed = passed_[static_cast<size_t>(at)];
    auto stretch = rows.stretch(begin, end);
    stretch.grads = grads.narrow(0, 0, stretch.weights.numel());
    stretch.weight_decay = passed.weight_decay;
    optimizer_.update(stretch, passed.numbers);
  }
}

double MissedUpdates::kept_between(int64_t from, int64_t to) const {
  const auto f = static_cast<size_t>(from), t = static_cast<size_t>(to);
  if (num_odd_[t] == num_odd_[f]) return std::exp(log_kept_[t] - log_kept_[f]);
  double out = 1;
  for (size_t at = f; at < t; ++at) out *= passed_[at].kept;
  return out;
}

}  // namespace convoy::parallel
