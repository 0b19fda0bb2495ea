#include "convoy/parallel/row_tables/torch/row_table.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <utility>

#include "convoy/base/error.h"
#include "convoy/comm/device.h"
#include "convoy/optim/squares.h"
#include "convoy/parallel/buffers/finite.h"

namespace convoy::parallel {

namespace {

void sort_once(std::vector<int64_t>& ids) {
  std::sort(ids.begin(), ids.end());
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
}

std::vector<int64_t> numbers_of(const at::Tensor& tensor) {
  const auto host = comm::download(tensor).contiguous();
  const auto* values = host.const_data_ptr<int64_t>();
  return {values, values + host.numel()};
}

int64_t bytes_of(const at::Tensor& tensor) {
  return tensor.defined() ? static_cast<int64_t>(tensor.nbytes()) : 0;
}

}  // namespace

RowTable::RowTable(FlatBuffers& flat, int64_t unit, comm::Group ranks)
    : optimizer_(flat.optimizer()),
      param_(flat.units()[static_cast<size_t>(unit)].slots.front().param),
      unit_(unit),
      ranks_(std::move(ranks)),
      dtype_(flat.weight_dtype()),
      width_(param_->spec().shape.back()),
      missed_(optimizer_, flat.layout().kept_rows(unit, ranks_.rank())) {
  internal_check(optimizer_.updates_until_idle() > 0 && !optimizer_.needs_spans(), "parallel",
                 "rows cannot miss updates of {}", optimizer_.name());
  const int64_t rows = flat.layout().kept_rows(unit, ranks_.rank());
  state_.weights = at::zeros({rows, width_}, flat.fp32());
  for (const auto& spec : flat.states()) {
    state_.states.push_back(at::zeros({rows, width_}, flat.fp32().dtype(spec.dtype)));
  }
  if (!state_.weights.is_cpu()) return;
  state_.changing.push_back(std::make_shared<ChangingRows>(state_.weights));
  for (const auto& kept : state_.states) {
    state_.changing.push_back(std::make_shared<ChangingRows>(kept));
  }
}

void RowTable::draw(uint64_t seed) {
  nn::initialize_rows(param_->spec(), seed, state_.weights, ranks_.rank(), ranks_.size());
}

at::Tensor RowTable::on_device(const std::vector<int64_t>& values) const {
  return comm::upload(at::tensor(values, at::kLong), state_.weights.device());
}

at::Tensor RowTable::index() const {
  return on_device(rows_);
}

at::Tensor RowTable::rounded(const at::Tensor& rows) const {
  return rows.to(dtype_).to(at::kFloat);
}

/// Returns the ids of all ranks, each once, in ascending order.
std::vector<int64_t> RowTable::of_all_ranks(const at::Tensor& ids) const {
  auto own = numbers_of(ids);
  sort_once(own);
  if (ranks_.size() == 1) return own;
  const auto counts =
      numbers_of(ranks_.all_gather(on_device({std::ssize(own)}), "count rows to fetch"));
  const int64_t most = *std::max_element(counts.begin(), counts.end());
  constexpr int64_t kNone = -1;
  own.resize(static_cast<size_t>(most), kNone);
  auto all = numbers_of(ranks_.all_gather(on_device(own), "ids of rows to fetch"));
  sort_once(all);
  if (!all.empty() && all.front() == kNone) all.erase(all.begin());
  return all;
}

void RowTable::fetch(const at::Tensor& wanted, bool trains) {
  const at::NoGradGuard no_grad;
  const auto ids = of_all_ranks(wanted);
  internal_check(ids.empty() || (ids.front() >= 0 && ids.back() < param_->spec().shape.front()),
                 "parallel", "rows that {} does not have", param_->spec().name);
  const int64_t num_ranks = ranks_.size();
  std::vector<int64_t> counts(static_cast<size_t>(num_ranks));
  for (const int64_t id : ids) ++counts[static_cast<size_t>(id % num_ranks)];
  most_ = *std::max_element(counts.begin(), counts.end());
  std::vector<int64_t> places;
  std::fill(counts.begin(), counts.end(), 0);
  rows_.clear();
  for (const int64_t id : ids) {
    const int64_t owner = id % num_ranks;
    places.push_back(owner * most_ + counts[static_cast<size_t>(owner)]++);
    if (owner == ranks_.rank()) rows_.push_back(id / num_ranks);
  }
  missed_.make_up(rows_, state_);
  auto values = at::empty({num_ranks * most_, width_}, state_.weights.options());
  auto own = values.narrow(0, ranks_.rank() * most_, most_);
  const auto count = std::ssize(rows_);
  own.narrow(0, 0, count).copy_(state_.weights.index_select(0, index()));
  own.narrow(0, count, most_ - count).zero_();
  if (num_ranks > 1) ranks_.all_gather(values, own, "fetch rows");
  values_ = values.to(dtype_);
  param_->bind_rows(values_, on_device(ids), on_device(places));
  grad_ = scratch_ = own_grad_ = at::Tensor();
  if (trains) grad_ = at::empty(values.sizes(), values.options());
  param_->bind_grad(grad_);
}

void RowTable::accumulate(int64_t micro_batch, bool last) {
  const at::NoGradGuard no_grad;
  if (!param_->grad_written()) param_->grad().zero_();
  if (micro_batch > 0) grad_.add_(scratch_);
  if (last) return;
  if (!scratch_.defined()) scratch_ = at::empty_like(grad_);
  param_->bind_grad(scratch_);
}

void RowTable::reduce() {
  const at::NoGradGuard no_grad;
  auto own = grad_.narrow(0, ranks_.rank() * most_, most_);
  if (ranks_.size() > 1) {
    ranks_.reduce_scatter(own, grad_, comm::ReduceOp::Sum, "reduce rows");
  }
  own_grad_ = own.narrow(0, 0, std::ssize(rows_));
}

at::Tensor RowTable::squares() const {
  return optim::sum_of_squares(own_grad_.reshape({-1}));
}

bool RowTable::finite() const {
  return is_finite(grad_);
}

void RowTable::update(const optim::StepNumbers& numbers, double weight_decay) {
  const at::NoGradGuard no_grad;
  missed_.note(numbers, weight_decay);
  missed_.took_part(rows_);
  if (rows_.empty()) return;
  const auto at = index();
  const auto some = state_.select(at);
  auto stretch = some.stretch(0, std::ssize(rows_));
  stretch.grads = own_grad_.reshape({-1});
  stretch.weight_decay = weight_decay;
  optimizer_.update(stretch, numbers);
  state_.store(at, some);
}

int64_t RowTable::weight_bytes() const {
  return bytes_of(state_.weights);
}

int64_t RowTable::optimizer_bytes() const {
  int64_t out = missed_.num_bytes();
  for (const auto& state : state_.states) out += bytes_of(state);
  return out;
}

int64_t RowTable::fetched_bytes() const {
  return bytes_of(values_) + bytes_of(grad_) + bytes_of(scratch_);
}

}  // namespace convoy::parallel
