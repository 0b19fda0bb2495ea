#include "convoy/parallel/buffers/update.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "convoy/base/error.h"
#include "convoy/base/fault.h"
#include "convoy/comm/device.h"
#include "convoy/comm/pending.h"
#include "convoy/gpu/kernel.h"
#include "convoy/optim/squares.h"
#include "convoy/optim/squares_kernel.h"

namespace convoy::parallel {

namespace {

enum Total : int64_t { kLoss, kTargets, kSquares, kWriting, kWords };
/// Message of a rank: kSpoilt for a loss that is not finite, kSignal times the number of a signal
/// to stop, and kShort for lack of memory, added up.
enum Word : int { kSpoilt = 1, kSignal = 2, kShort = 256 };

/// Parameters of clip.cu.
struct ClipFacts {
  double loss_scale, limit;
  int64_t targets = kTargets, squares = kSquares, words = kWords, ranks;
  int64_t signal = kSignal, shortage = kShort;
  int64_t told;
};

struct CloseFacts {
  int64_t loss = kLoss, squares = kSquares, writing = kWriting, word, step;
  double told, steps, writes;
};

constexpr const char* kClipText =
#include <convoy/parallel/buffers/clip_cu.h>
    ;

gpu::Kernel& clip_kernel() {
  static gpu::Kernel kernel("convoy_clip", kClipText);
  return kernel;
}

gpu::Kernel& close_kernel() {
  static gpu::Kernel kernel("convoy_close", kClipText);
  return kernel;
}

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
  decided_ = false;
  added_.clear();
  constexpr int64_t kTold = 2;
  totals_ = at::zeros({told_begin() + kTold}, flat_.fp32().dtype(at::kDouble));
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
  const int told = kSignal * stop + (gave_up_ ? kShort : 0);
  if (close_at_once(told)) return;
  const auto& layout = flat_.layout();
  auto word = totals_[kWords + groups_.world.rank()];
  word += totals_[kLoss].isfinite().logical_not();
  word += told;
  if (input_->writing_checkpoint) totals_[kWriting] += 1;
  totals_[kWords + groups_.world.size() + groups_.world.rank()] +=
      static_cast<double>(input_->step);
  if (layout.offloaded(Kind::Gradients)) return;
  for (int64_t bucket = 0; bucket < layout.num_trained_buckets(); ++bucket) add_squares(bucket);
}

/// close_totals() by two kernels on a GPU. False: they cannot run.
bool Update::close_at_once(int told) {
  const auto& layout = flat_.layout();
  if (totals_.is_cpu() || !close_kernel().runs_on(totals_.device())) return false;
  auto sums = at::empty({0}, totals_.options());
  if (groups_.owns_part() && !layout.offloaded(Kind::Gradients)) {
    std::vector<at::Tensor> grads;
    for (int64_t bucket = 0; bucket < layout.num_trained_buckets(); ++bucket) {
      for (const auto& extent : layout.counted(bucket, flat_.rank())) {
        grads.push_back(flat_.grads(bucket, extent));
      }
    }
    const bool some = std::any_of(grads.begin(), grads.end(),
                                  [](const at::Tensor& part) { return part.numel() > 0; });
    if (some) {
      const auto found = optim::squares_by_kernel(grads);
      if (!found) return false;
      sums = *found;
    }
  }
  constexpr unsigned kThreads = 256;
  const int64_t rank = groups_.world.rank(), ranks = groups_.world.size();
  const CloseFacts facts{.word = kWords + rank,
                         .step = kWords + ranks + rank,
                         .told = static_cast<double>(told),
                         .steps = static_cast<double>(input_->step),
                         .writes = input_->writing_checkpoint ? 1.0 : 0.0};
  close_kernel().launch(totals_.device(), {1, kThreads}, {.reads = {sums}, .updates = {totals_}},
                        totals_.mutable_data_ptr<double>(), sums.const_data_ptr<double>(),
                        sums.numel(), facts);
  return true;
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
  return decide(comm::download(totals_));  // the step's only wait for a GPU
}

/// Finds the scale from the ranks' totals, on the host.
bool Update::decide(const at::Tensor& totals) {
  decided_ = true;
  const auto* values = totals.const_data_ptr<double>();
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
  return numbers_;
}

double Update::weight_decay(int64_t row_unit) const {
  return flat_.layout().row_table(row_unit).decays ? optimizer_->weight_decay : 0;
}

/// Ranges of the flat buffers that this rank updates of a bucket.
std::vector<optim::FlatRange> Update::ranges(int64_t bucket) const {
  const auto& layout = flat_.layout();
  const auto own = layout.updated(bucket, flat_.rank());
  std::vector<optim::FlatRange> out;
  auto add = [&](int64_t begin, int64_t end, double decay) {
    begin = std::max(begin, own.begin), end = std::min(end, own.end);
    if (begin >= end) return;
    const Extent extent{begin, end};
    optim::FlatRange range{.weights = flat_.masters(bucket, extent),
                           .grads = flat_.grads(bucket, extent)};
    for (size_t k = 0; k < flat_.states().size(); ++k) {
      range.states.push_back(flat_.narrow(Kind::Moments, bucket, extent, k));
    }
    if (layout.options().low_precision) range.rounded = flat_.weights(bucket, extent);
    range.weight_decay = decay;
    if (flat_.optimizer().needs_spans()) range.spans = spans(bucket, extent);
    out.push_back(std::move(range));
  };
  for (const int64_t unit : layout.buckets()[static_cast<size_t>(bucket)].units) {
    const auto& place = layout.units()[static_cast<size_t>(unit)];
    add(place.all.begin, place.decay_end, optimizer_->weight_decay);
    add(place.decay_end, place.all.end, 0);
  }
  return out;
}

bool Update::collects() const {
  return !totals_.is_cpu() && !flat_.layout().offloaded(Kind::Gradients) &&
         !flat_.layout().offloaded(Kind::Moments);
}

void Update::add_bucket(int64_t bucket) {
  if (decided_ && result.skipped) return;
  for (auto& range : ranges(bucket)) added_.push_back(std::move(range));
}

bool Update::update_added() {
  const auto ranges = std::exchange(added_, {});
  if (!decided_) {
    if (can_update_before_clip(ranges)) return update_before_clip(ranges);
    if (!clip()) return false;
  }
  if (!result.skipped) flat_.optimizer().update_all(ranges, numbers_);
  return true;
}

/// Whether the device itself can find the scale of the gradient, and the optimizer read it there.
bool Update::can_update_before_clip(const std::vector<optim::FlatRange>& ranges) const {
  return !ranges.empty() && ranges.front().weights.device() == totals_.device() &&
         clip_kernel().runs_on(totals_.device()) && flat_.optimizer().reads_device_state(ranges);
}

/// Launches an update that the device skips where it must, and waits for the totals only then: the
/// GPU has work until the host has launched what follows.
bool Update::update_before_clip(const std::vector<optim::FlatRange>& ranges) {
  std::exchange(handle_, {}).wait();
  const ClipFacts facts{.loss_scale = input_->loss_scale,
                        .limit = optimizer_->max_grad_norm,
                        .ranks = groups_.world.size(),
                        .told = told_begin()};
  const auto state = at::empty({3}, flat_.fp32());
  clip_kernel().launch(totals_.device(), {}, {.writes = {state}, .updates = {totals_}},
                       totals_.mutable_data_ptr<double>(), facts, state.mutable_data_ptr<float>());
  const comm::Download download(totals_);
  flat_.optimizer().update_all(ranges, {.learning_rate = input_->learning_rate,
                                        .step = input_->updates + 1,
                                        .seed = input_->seed,
                                        .device_state = state});
  comm::finish_pending();  // a collective that was given up leaves no totals
  const auto totals = download.get();
  const bool goes_on = decide(totals);
  const auto* told = totals.const_data_ptr<double>() + told_begin();
  const bool skips = !goes_on || result.skipped;
  const double divisor = skips ? told[1] : numbers_.grad_divisor;
  if (skips != (told[0] != 0) || !(std::abs(told[1] - divisor) <= 1e-9 * divisor || skips)) {
    fail<NumericError>("device",
                       "the kernel convoy_clip found another scale of the gradient than the host; "
                       "got a divisor of {} in place of {}; set CONVOY_GPU_KERNELS=0, which leaves "
                       "all to torch's operations",
                       told[1], divisor);
  }
  return goes_on;
}

}  // namespace convoy::parallel
