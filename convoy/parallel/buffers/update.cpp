#include "convoy/parallel/buffers/update.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "convoy/base/error.h"
#include "convoy/base/fault.h"
#include "convoy/comm/device.h"
#include "convoy/comm/pending.h"
#include "convoy/optim/squares.h"

namespace convoy::parallel {

namespace {

enum Total : int64_t { kLoss, kTargets, kSquares, kWriting, kWords };
/// Message of a rank: kSpoilt for a loss that is not finite, kSignal times the number of a signal
/// to stop, and kShort for lack of memory, added up.
enum Word : int { kSpoilt = 1, kSignal = 2, kShort = 256 };

}  // namespace

Update::Update(FlatBuffers& flat, comm::Groups groups, bool may_overflow, int64_t num_metrics)
    : flat_(flat),
      groups_(std::move(groups)),
      may_overflow_(may_overflow),
      num_metrics_(num_metrics) {}

/// Index of the metrics among the totals.
int64_t Update::metrics_begin() const {
  return kWords + 2 * int64_t{groups_.world.size()};
}

void Update::begin_step(const StepInput& input, const OptimizerOptions& optimizer) {
  input_ = &input;
  optimizer_ = &optimizer;
  result = {};
  spoilt_loss_ = -1;
  gave_up_ = false;
  totals_ = at::zeros({metrics_begin() + num_metrics_}, flat_.fp32().dtype(at::kDouble));
}

void Update::add(const at::Tensor& loss, const at::Tensor& count) {
  totals_[kLoss] += loss.detach().reshape({});
  const int times = fault_at("count") == Fault::kDouble ? 2 : 1;
  for (int i = 0; i < times; ++i) totals_[kTargets] += count.detach().reshape({});
}

void Update::add_metrics(const at::Tensor& metrics) {
  totals_.narrow(0, metrics_begin(), num_metrics_) += metrics.detach();
}

void Update::close_totals() {
  const int stop = input_->stop_signal == nullptr ? 0 : input_->stop_signal->load();
  auto word = totals_[kWords + groups_.world.rank()];
  word += totals_[kLoss].isfinite().logical_not();
  word += kSignal * stop + (gave_up_ ? kShort : 0);
  if (input_->writing_checkpoint) totals_[kWriting] += 1;
  totals_[kWords + groups_.world.size() + groups_.world.rank()] +=
      static_cast<double>(input_->step);
  const auto& layout = flat_.layout();
  if (layout.offloaded(Kind::Gradients)) return;
  for (int64_t bucket = 0; bucket < layout.num_trained_buckets(); ++bucket) add_squares(bucket);
}

void Update::add_squares(int64_t bucket) {
  if (!groups_.owns_part()) return;
  for (const auto& extent : flat_.layout().counted(bucket, flat_.rank())) {
    totals_[kSquares] += optim::sum_of_squares(flat_.grads(bucket, extent));
  }
}

void Update::add_squares(const at::Tensor& squares) {
  totals_[kSquares] += squares;
}

void Update::reduce_totals() {
  constexpr const char* kLabel = "reduce loss";
  if (fault_at("norm") == Fault::kDouble) totals_[kSquares] *= 2;
  if (totals_.is_cpu()) return groups_.world.all_reduce(totals_, comm::ReduceOp::Sum, kLabel);
  handle_ = groups_.world.start_all_reduce(totals_, comm::ReduceOp::Sum, kLabel);
}

/// Reads the ranks' totals, on the host.
void Update::take_totals(const double* values) {
  result.loss_sum = values[kLoss];
  result.count = values[kTargets];
  result.num_writing = static_cast<int>(values[kWriting]);
  result.metrics.assign(values + metrics_begin(), values + metrics_begin() + num_metrics_);
  const auto* words = values + kWords;
  const auto* steps = words + groups_.world.size();
  for (int rank = 1; rank < groups_.world.size(); ++rank) {
    if (steps[rank] == steps[0]) continue;
    fail<CommunicationError>("train",
                             "the ranks are not at the same step: rank 0 makes step {}, rank {} "
                             "step {}; try to start them from the same checkpoint",
                             steps[0] + 1, rank, steps[rank] + 1);
  }
  for (int rank = 0; rank < groups_.world.size(); ++rank) {
    const int word = static_cast<int>(words[rank]);
    result.stop_signal = std::max(result.stop_signal, word % kShort / kSignal);
    if (word % kSignal != 0 && spoilt_loss_ < 0) spoilt_loss_ = rank;
    if (word >= kShort && result.short_rank < 0) result.short_rank = rank;
  }
  if (result.short_rank >= 0) {  // what the others computed with is no sum
    result.skipped = true;
    spoilt_loss_ = -1;
  }
  if (spoilt_loss_ >= 0 && may_overflow_) {
    result.skipped = true;
    spoilt_loss_ = -1;
  }
}

bool Update::clip() {
  comm::finish_pending();
  std::exchange(handle_, {}).wait();
  const auto read = comm::download(totals_);  // the step's only wait for a GPU
  const auto* values = read.data_ptr<double>();
  take_totals(values);
  if (spoilt_loss_ >= 0) return false;
  const double count = result.count > 0 ? result.count : 1;
  // abs() drops the sign of a NaN, which a message would show.
  const auto norm =
      static_cast<float>(std::sqrt(std::abs(values[kSquares])) / count / input_->loss_scale);
  result.grad_norm = norm;
  if (!std::isfinite(norm) && may_overflow_) result.skipped = true;
  if (result.skipped) return true;
  if (!std::isfinite(norm)) return false;
  const double limit = optimizer_->max_grad_norm;
  const double scale = limit > 0 ? std::min(1.0, limit / (norm + 1e-6)) : 1.0;
  numbers_ = {input_->learning_rate, input_->updates + 1, count * input_->loss_scale / scale,
              input_->seed};
  if (!totals_.is_cpu()) {
    numbers_.device_step = at::full({}, static_cast<double>(numbers_.step), flat_.fp32());
    numbers_.device_divisor = at::full({}, numbers_.grad_divisor, flat_.fp32());
  }
  return true;
}

std::vector<optim::Span> Update::spans(int64_t bucket, const Extent& extent) const {
  std::vector<optim::Span> out;
  for (const auto& piece : flat_.layout().pieces(bucket, extent)) {
    const auto& slots = flat_.units()[static_cast<size_t>(piece.unit)].slots;
    each_row(piece, [&](const Piece& row) {
      out.push_back({slots[static_cast<size_t>(piece.param)].param->spec().name, row.begin,
                     row.place - extent.begin, row.length});
    });
  }
  std::sort(out.begin(), out.end(),
            [](const optim::Span& a, const optim::Span& b) { return a.place < b.place; });
  return out;
}

optim::StepNumbers Update::numbers() const {
  auto out = numbers_;
  out.device_step.reset();  // tables of rows keep the numbers of many steps
  out.device_divisor.reset();
  return out;
}

double Update::weight_decay(int64_t row_unit) const {
  return flat_.layout().row_table(row_unit).decays ? optimizer_->weight_decay : 0;
}

void Update::update(int64_t bucket) {
  if (result.skipped) return;
  const auto& layout = flat_.layout();
  const auto own = layout.updated(bucket, flat_.rank());
  const auto& optimizer = flat_.optimizer();
  std::vector<optim::FlatRange> stretches;
  auto add = [&](int64_t begin, int64_t end, double decay) {
    begin = std::max(begin, own.begin), end = std::min(end, own.end);
    if (begin >= end) return;
    const Extent extent{begin, end};
    optim::FlatRange stretch{.weights = flat_.masters(bucket, extent),
                             .grads = flat_.grads(bucket, extent)};
    for (size_t k = 0; k < flat_.states().size(); ++k) {
      stretch.states.push_back(flat_.narrow(Kind::Moments, bucket, extent, k));
    }
    if (layout.options().low_precision) stretch.rounded = flat_.weights(bucket, extent);
    stretch.weight_decay = decay;
    if (optimizer.needs_spans()) stretch.spans = spans(bucket, extent);
    stretches.push_back(std::move(stretch));
  };
  for (const int64_t unit : layout.buckets()[static_cast<size_t>(bucket)].units) {
    const auto& place = layout.units()[static_cast<size_t>(unit)];
    add(place.all.begin, place.decay_end, optimizer_->weight_decay);
    add(place.decay_end, place.all.end, 0);
  }
  optimizer.update_all(stretches, numbers_);
}

}  // namespace convoy::parallel
