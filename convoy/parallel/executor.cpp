#include "convoy/parallel/executor.h"

#include <ATen/Functions.h>
#include <fmt/ranges.h>
#include <torch/csrc/autograd/autograd.h>

#include <chrono>
#include <cmath>
#include <set>

#include "convoy/base/activity.h"
#include "convoy/base/error.h"
#include "convoy/base/fault.h"
#include "convoy/base/timing.h"
#include "convoy/comm/device.h"

namespace convoy::parallel {

namespace {

using schedule::Op;

using Clock = std::chrono::steady_clock;

constexpr const char* kLossLabel = "reduce loss";

const nn::Bundle* loaded(const MicroBatch& batch) {
  return batch.loaded.empty() ? &batch.inputs : &batch.loaded;
}

/// Cuts the graph: tensors that carry a gradient become leaves.
nn::Bundle detached(const nn::Bundle& bundle) {
  nn::Bundle out;
  for (const auto& [name, tensor] : bundle) {
    out[name] = tensor.requires_grad() ? tensor.detach().requires_grad_(true) : tensor;
  }
  return out;
}

const at::Tensor& required(const nn::Bundle& bundle, const char* name) {
  auto it = bundle.find(name);
  if (it == bundle.end()) {
    fail<UsageError>("parallel",
                     "the model's last block returned no '{}'; expected 'loss' (sum "
                     "over targets) and 'count' (their number)",
                     name);
  }
  return it->second;
}

}  // namespace

struct Executor::Pass {
  const std::vector<MicroBatch>& micro_batches;
  const StepInput& input;
  const OptimizerOptions& optimizer;
  std::vector<std::vector<nn::Bundle>> ins{}, outs{};  // [micro-batch][block]
  std::vector<at::Tensor> scratch{};                   // [unit], defined while one is in use
  std::vector<int64_t> bound{};  // [unit] micro-batch its gradient is bound to
  std::set<std::pair<int64_t, int64_t>> recomputed{};  // (block, micro-batch)
  std::vector<comm::Group::Handle> handles{};
  /// Loss, targets, and a word of each rank: 1 for a loss that is not finite, and twice the signal
  /// that asked it to stop; then the step that each rank makes. They stay on the device until
  /// clip() reads them with the norm.
  at::Tensor totals{};
  StepResult result{};
  double divisor = 1;
  bool overflowed = false;  // the norm is not finite
  bool spoilt = false;      // by an injected fault
};

Executor::Executor(nn::BlockList blocks, Arena& arena, comm::Group group,
                   at::ScalarType compute_dtype, std::vector<std::vector<int64_t>> buckets,
                   bool updates_weights)
    : blocks_(std::move(blocks)),
      arena_(arena),
      group_(std::move(group)),
      compute_dtype_(compute_dtype),
      buckets_(std::move(buckets)),
      updates_weights_(updates_weights) {}

StepResult Executor::run(const schedule::Program& program,
                         const std::vector<MicroBatch>& micro_batches, const StepInput& input,
                         const OptimizerOptions& optimizer) {
  Pass pass{micro_batches, input, optimizer};
  prepare(pass, program);
  for (const auto& i : program) {
    const std::string name = schedule::to_text(i);
    tell_operation(name);
    const comm::Range range([&] { return name; });
    inject_fault(pass, i);
    execute(pass, i);
    if (i.op == Op::Clip && pass.overflowed) fail_for_gradient(pass, program);
  }
  return pass.result;
}

void Executor::prepare(Pass& pass, const schedule::Program& program) const {
  const size_t num_units = arena_.units().size();
  pass.ins.assign(pass.micro_batches.size(), std::vector<nn::Bundle>(blocks_.size()));
  pass.outs = pass.ins;
  pass.scratch.resize(num_units);
  pass.bound.assign(num_units, -1);
  pass.totals = at::zeros({2 + 2 * group_.size()}, arena_.grads().options().dtype(at::kDouble));
  for (const auto& i : program) {
    if (i.op == Op::Recompute) pass.recomputed.insert({i.block, i.micro_batch});
  }
}

void Executor::execute(Pass& pass, const schedule::Instruction& i) {
  const auto m = static_cast<size_t>(i.micro_batch);
  switch (i.op) {
    case Op::Load:
      pass.ins[m][0] = pass.micro_batches.at(m).inputs;
      break;
    case Op::Forward:
      forward_block(pass, i.block, i.micro_batch);
      break;
    case Op::Loss: {
      if (pass.micro_batches[m].empty()) break;
      const auto& out = pass.outs[m].back();
      pass.totals[0] += required(out, "loss").detach().reshape({});
      pass.totals[1] += required(out, "count").detach().reshape({});
      break;
    }
    case Op::Recompute:
      recompute_block(pass, i.block, i.micro_batch);
      break;
    case Op::Backward:
      backward_block(pass, i.block, i.micro_batch);
      break;
    case Op::Accumulate:
      accumulate(pass, i.unit, i.micro_batch);
      break;
    case Op::Reduce:
      start_reduce(pass, i.unit);
      break;
    case Op::ReduceLoss:
      reduce_loss(pass);
      break;
    case Op::Clip:
      clip(pass);
      break;
    case Op::OptimizerStep:
      optimizer_step(pass);
      break;
  }
}

void Executor::inject_fault(Pass& pass, const schedule::Instruction& i) {
  const Op op = i.op;
  const char* phase = op == Op::Forward    ? "forward"
                      : op == Op::Backward ? "backward"
                      : op == Op::Reduce   ? "reduce"
                                           : nullptr;
  if (phase == nullptr) return;
  const auto fault = fault_at(phase);
  if (fault == Fault::kMismatch) {
    auto extra = at::zeros({1});
    group_.all_reduce(extra, comm::ReduceOp::Sum, "injected fault");
  }
  if (fault != Fault::kNan) return;
  at::NoGradGuard no_grad;
  if (op == Op::Forward) {
    arena_.masters().fill_(NAN);
    arena_.publish_weights();
  } else if (op == Op::Backward) {
    pass.spoilt = true;
  } else {
    const auto unit = static_cast<size_t>(buckets_[static_cast<size_t>(i.unit)].front());
    auto grad = arena_.units()[unit].slots.front().param->grad();
    grad.fill_(NAN);
  }
}

void Executor::fail_for_gradient(Pass& pass, const schedule::Program& program) {
  std::string who = fmt::format("on rank {}", group_.rank());
  // The ranks' own gradients are summed away by now: compute them again. Replicas that share
  // weights do not all come here.
  if (group_.size() > 1 && std::string_view(group_.engine()) != "threads") {
    Pass again{pass.micro_batches, pass.input, pass.optimizer};
    prepare(again, program);
    for (const auto& i : program) {
      inject_fault(again, i);
      const bool own = i.op != Op::Reduce && i.op != Op::ReduceLoss && i.op != Op::Clip &&
                       i.op != Op::OptimizerStep;
      if (own) execute(again, i);
    }
    auto spoilt = at::zeros({group_.size()}, at::kLong);
    const auto norm = at::linalg_vector_norm(arena_.grads()).item<double>();
    spoilt[group_.rank()] = std::isfinite(norm) ? 0 : 1;
    group_.all_reduce(spoilt, comm::ReduceOp::Sum, "find the rank with the bad gradient");
    std::vector<int64_t> ranks;
    for (int64_t r = 0; r < group_.size(); ++r) {
      if (spoilt[r].item<int64_t>() != 0) ranks.push_back(r);
    }
    who = ranks.empty() ? "although that of each rank is"
                        : fmt::format("on rank {}", fmt::join(ranks, ", "));
  }
  fail<NumericError>("train",
                     "the gradient of step {} is not finite {}; got a norm of {}; try a lower "
                     "learning_rate or look for extreme values in the data",
                     pass.input.step + 1, who, pass.result.grad_norm);
}

void Executor::forward_block(Pass& pass, int64_t block, int64_t m) {
  if (pass.micro_batches[static_cast<size_t>(m)].empty()) return;
  auto b = static_cast<size_t>(block);
  auto& ins = pass.ins[static_cast<size_t>(m)];
  auto& outs = pass.outs[static_cast<size_t>(m)];
  if (b > 0) ins[b] = detached(outs[b - 1]);
  // A loss may write gradients at once.
  if (b + 1 == blocks_.size()) bind_grads(pass, block, m);
  outs[b] = run_block(pass, block, m);
  if (pass.recomputed.contains({block, m})) outs[b] = detached(outs[b]);
}

void Executor::recompute_block(Pass& pass, int64_t block, int64_t m) {
  if (pass.micro_batches[static_cast<size_t>(m)].empty()) return;
  pass.outs[static_cast<size_t>(m)][static_cast<size_t>(block)] = run_block(pass, block, m);
}

nn::Bundle Executor::run_block(const Pass& pass, int64_t block, int64_t m) const {
  const auto micro_batch = static_cast<size_t>(m), b = static_cast<size_t>(block);
  const auto& batch = pass.micro_batches[micro_batch];
  nn::Context context{nn::Mode::Train, pass.input.seed, pass.input.step, block,
                      compute_dtype_,  batch.samples,   loaded(batch)};
  return blocks_[b]->forward(pass.ins[micro_batch][b], context);
}

void Executor::bind_grads(Pass& pass, int64_t block, int64_t m) {
  for (int64_t unit : arena_.table().units_of_block[static_cast<size_t>(block)]) {
    auto u = static_cast<size_t>(unit);
    if (pass.bound[u] == m) continue;
    pass.bound[u] = m;
    const auto& layout = arena_.units()[u];
    if (m > 0) pass.scratch[u] = at::zeros({layout.end - layout.begin}, arena_.grads().options());
    arena_.bind_grads(unit, pass.scratch[u]);
  }
}

void Executor::backward_block(Pass& pass, int64_t block, int64_t m) {
  auto b = static_cast<size_t>(block);
  auto& ins = pass.ins[static_cast<size_t>(m)];
  auto& outs = pass.outs[static_cast<size_t>(m)];
  bind_grads(pass, block, m);
  if (pass.micro_batches[static_cast<size_t>(m)].empty()) return;
  std::vector<at::Tensor> roots, grads;
  if (b + 1 == blocks_.size()) {
    roots.push_back(required(outs[b], "loss"));
    grads.push_back(at::full_like(roots.back(), pass.spoilt ? NAN : pass.input.loss_scale));
  } else {
    for (const auto& [name, leaf] : ins[b + 1]) {
      if (!leaf.requires_grad() || !leaf.grad().defined()) continue;
      roots.push_back(outs[b].at(name));
      grads.push_back(leaf.grad());
    }
    ins[b + 1].clear();
  }
  if (!roots.empty() && roots[0].requires_grad()) torch::autograd::backward(roots, grads);
  outs[b].clear();
}

void Executor::accumulate(Pass& pass, int64_t unit, int64_t m) {
  at::NoGradGuard no_grad;
  auto u = static_cast<size_t>(unit);
  const auto& layout = arena_.units()[u];
  for (const auto& slot : layout.slots) {
    if (!slot.param->grad_written()) {
      auto grad = slot.param->grad();
      grad.zero_();
    }
  }
  if (m == 0) return;
  arena_.grads().narrow(0, layout.begin, layout.end - layout.begin).add_(pass.scratch[u]);
  pass.scratch[u] = at::Tensor();
}

void Executor::start_reduce(Pass& pass, int64_t bucket) {
  if (group_.size() == 1) return;
  const auto& units = buckets_[static_cast<size_t>(bucket)];
  int64_t begin = arena_.units()[static_cast<size_t>(units.front())].begin;
  int64_t end = arena_.units()[static_cast<size_t>(units.back())].end;
  timed(pass, [&] {
    pass.handles.push_back(group_.start_all_reduce(arena_.grads().narrow(0, begin, end - begin),
                                                   comm::ReduceOp::Sum,
                                                   fmt::format("reduce bucket {}", bucket)));
  });
}

/// Adds to the time that communication takes. On a GPU the clock would also count what is still to
/// be computed there.
template <class Work>
void Executor::timed(Pass& pass, const Work& work) const {
  const auto start = Clock::now();
  work();
  pass.result.wait_seconds += arena_.grads().is_cpu() ? seconds_since(start) : NAN;
}

void Executor::reduce_loss(Pass& pass) {
  const int stop = pass.input.stop_signal == nullptr ? 0 : pass.input.stop_signal->load();
  auto word = pass.totals[2 + group_.rank()];
  word += pass.totals[0].isfinite().logical_not();
  word += 2 * stop;
  pass.totals[2 + group_.size() + group_.rank()] += static_cast<double>(pass.input.step);
  timed(pass, [&] {
    if (pass.totals.is_cpu())
      return group_.all_reduce(pass.totals, comm::ReduceOp::Sum, kLossLabel);
    pass.handles.push_back(group_.start_all_reduce(pass.totals, comm::ReduceOp::Sum, kLossLabel));
  });
}

/// What reduce_loss() gathered, on the host.
void Executor::take_totals(Pass& pass, const double* values) const {
  auto& result = pass.result;
  result.loss_sum = values[0];
  result.count = values[1];
  const auto* steps = values + 2 + group_.size();
  for (int rank = 1; rank < group_.size(); ++rank) {
    if (steps[rank] == steps[0]) continue;
    fail<CommunicationError>("train",
                             "the ranks are not at the same step: rank 0 makes step {}, rank {} "
                             "step {}; try to start them from the same checkpoint",
                             steps[0] + 1, rank, steps[rank] + 1);
  }
  for (int rank = 0; rank < group_.size(); ++rank) {
    result.stop_signal = std::max(result.stop_signal, static_cast<int>(values[2 + rank]) / 2);
  }
  for (int rank = 0; rank < group_.size(); ++rank) {
    if (static_cast<int>(values[2 + rank]) % 2 == 0) continue;
    result.skipped = may_overflow();
    if (result.skipped) break;
    fail<NumericError>("train",
                       "the loss of step {} is not finite on rank {}; got {}; try a lower "
                       "learning_rate, max_grad_norm, or look for NaN in the data",
                       pass.input.step + 1, rank, std::isnan(result.loss_sum) ? "nan" : "inf");
  }
}

void Executor::clip(Pass& pass) {
  timed(pass, [&] {
    for (auto& handle : pass.handles) handle.wait();
  });
  std::vector<at::Tensor> words{pass.totals};
  if (updates_weights_) {
    for (const auto& unit : arena_.units()) {
      auto grad = arena_.grads().narrow(0, unit.begin, unit.end - unit.begin);
      words.push_back(at::linalg_vector_norm(grad).to(at::kDouble).view({1}));
    }
  }
  // The step's only wait for a GPU.
  const auto read = at::cat(words).cpu();
  const auto* values = read.data_ptr<double>();
  take_totals(pass, values);
  if (!updates_weights_) return;
  const double count = std::max(1.0, pass.result.count);
  double squares = 0;
  for (int64_t i = pass.totals.numel(); i < read.numel(); ++i) squares += values[i] * values[i];
  const double norm = std::sqrt(squares) / count / pass.input.loss_scale;
  pass.result.grad_norm = norm;
  if (!std::isfinite(norm) && may_overflow()) pass.result.skipped = true;
  if (pass.result.skipped) return;
  pass.overflowed = !std::isfinite(norm);
  if (pass.overflowed) return;
  const double limit = pass.optimizer.max_grad_norm;
  const double scale = limit > 0 ? std::min(1.0, limit / (norm + 1e-6)) : 1.0;
  pass.divisor = count * pass.input.loss_scale / scale;
}

void Executor::optimizer_step(Pass& pass) {
  if (!updates_weights_ || pass.result.skipped) return;
  optim::Slices decayed, plain;
  auto add = [&](optim::Slices& to, int64_t begin, int64_t end) {
    if (begin == end) return;
    auto part = [&](at::Tensor& flat) { return flat.narrow(0, begin, end - begin); };
    to.weights.push_back(part(arena_.masters()));
    to.grads.push_back(part(arena_.grads()));
    to.first_moments.push_back(part(arena_.first_moments()));
    to.second_moments.push_back(part(arena_.second_moments()));
  };
  for (const auto& unit : arena_.units()) {
    add(decayed, unit.begin, unit.decay_end);
    add(plain, unit.decay_end, unit.end);
  }
  const auto& options = pass.optimizer.adamw;
  const int64_t count = pass.input.updates + 1;
  const double rate = pass.input.learning_rate;
  optim::adamw_step(decayed, options, rate, options.weight_decay, count, pass.divisor);
  optim::adamw_step(plain, options, rate, 0, count, pass.divisor);
  arena_.publish_weights();
}

MicroBatch to_device(MicroBatch batch, at::Device device) {
  if (device.is_cpu()) return batch;
  batch.loaded = batch.inputs;
  for (auto& [name, tensor] : batch.inputs) tensor = comm::upload(tensor, device);
  return batch;
}

nn::Bundle Executor::forward(const MicroBatch& batch, nn::Mode mode) {
  if (batch.empty()) return {};
  at::NoGradGuard no_grad;
  nn::Bundle bundle = batch.inputs;
  for (size_t b = 0; b < blocks_.size(); ++b) {
    nn::Context context{mode,         0, 0, static_cast<int64_t>(b), compute_dtype_, batch.samples,
                        loaded(batch)};
    bundle = blocks_[b]->forward(bundle, context);
  }
  return bundle;
}

}  // namespace convoy::parallel
