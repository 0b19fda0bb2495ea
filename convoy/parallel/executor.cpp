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
  nn::Mode mode = nn::Mode::Train;
  std::vector<std::vector<nn::Bundle>> ins{}, outs{};  // [micro-batch][block]
  std::set<std::pair<int64_t, int64_t>> recomputed{};  // (block, micro-batch)
  double wait_seconds = 0;
  bool overflowed = false;  // the norm is not finite
  bool spoilt = false;      // by an injected fault
};

Executor::Executor(nn::BlockList blocks, Arena& arena, DataGroups groups,
                   at::ScalarType compute_dtype, const schedule::StepOptions& options)
    : blocks_(std::move(blocks)),
      arena_(arena),
      groups_(std::move(groups)),
      compute_dtype_(compute_dtype),
      gradients_(arena, groups_, options.reduce_each),
      update_(arena, groups_, compute_dtype == at::kHalf),
      gathers_(arena.layout().buckets().size()) {}

StepResult Executor::run(const schedule::Program& program,
                         const std::vector<MicroBatch>& micro_batches, const StepInput& input,
                         const OptimizerOptions& optimizer) {
  Pass pass{micro_batches, input};
  prepare(pass, program);
  if (auto* offload = arena_.offload()) offload->reset();  // after an error something may be there
  gradients_.begin_step();
  update_.begin_step(input, optimizer);
  for (const auto& i : program) {
    const std::string name = schedule::to_text(i);
    tell_operation(name);
    const comm::Range range([&] { return name; });
    inject_fault(pass, i);
    execute(pass, i);
    if (pass.overflowed) fail_for_gradient(pass, program);
  }
  auto result = update_.result;
  // On a GPU the clock would also count what is still to be computed there.
  result.wait_seconds = arena_.fp32().device().is_cpu() ? pass.wait_seconds : NAN;
  return result;
}

nn::Bundle Executor::forward(const schedule::Program& program, const MicroBatch& batch,
                             nn::Mode mode) {
  const std::vector<MicroBatch> batches{batch};
  const StepInput input;
  Pass pass{batches, input, mode};
  prepare(pass, program);
  at::NoGradGuard no_grad;
  for (const auto& i : program) execute(pass, i);
  return std::move(pass.outs[0].back());
}

void Executor::settle() {
  for (auto& gather : gathers_) std::exchange(gather, {}).wait();
}

void Executor::prepare(Pass& pass, const schedule::Program& program) const {
  pass.ins.assign(pass.micro_batches.size(), std::vector<nn::Bundle>(blocks_.size()));
  pass.outs = pass.ins;
  for (const auto& i : program) {
    if (i.op == Op::Recompute) pass.recomputed.insert({i.block, i.micro_batch});
  }
}

void Executor::execute(Pass& pass, const schedule::Instruction& i) {
  const auto m = static_cast<size_t>(i.micro_batch);
  await_weights(pass, i);
  switch (i.op) {
    case Op::Load:
      pass.ins[m][0] = pass.micro_batches.at(m).inputs;
      break;
    case Op::Gather:
      gather(pass, i.bucket);
      break;
    case Op::Release:
      arena_.detach(i.bucket);
      break;
    case Op::Fetch:
      arena_.offload()->fetch(i.kind, i.bucket);
      break;
    case Op::Store:
      store(pass, i);
      break;
    case Op::Forward:
      forward_block(pass, i.block, i.micro_batch);
      break;
    case Op::Loss:
      take_loss(pass, i.micro_batch);
      break;
    case Op::Recompute:
      if (!pass.micro_batches[m].empty()) {
        pass.outs[m][static_cast<size_t>(i.block)] = run_block(pass, i.block, i.micro_batch);
      }
      break;
    case Op::Backward:
      backward_block(pass, i.block, i.micro_batch);
      break;
    case Op::Accumulate:
      gradients_.accumulate(i.unit, i.micro_batch);
      break;
    case Op::Reduce:
      timed(pass, [&] { gradients_.reduce(i.bucket); });
      break;
    case Op::ReduceScatter:
      timed(pass, [&] { gradients_.reduce_scatter(i.bucket, i.micro_batch); });
      break;
    case Op::ReduceLoss:
      timed(pass, [&] { gradients_.wait(); });
      update_.close_totals();
      timed(pass, [&] { update_.reduce_totals(); });
      break;
    case Op::Clip:
      pass.overflowed = !update_.clip();
      break;
    case Op::Update:
      update_.update(i.bucket);
      drop_offloaded(schedule::Kind::Gradients, i.bucket);
      break;
  }
}

void Executor::take_loss(Pass& pass, int64_t m) {
  if (pass.micro_batches[static_cast<size_t>(m)].empty()) return;
  const auto& out = pass.outs[static_cast<size_t>(m)].back();
  update_.add(required(out, "loss"), required(out, "count"));
}

/// Whole weights are completed in place; of slices a whole bucket is made.
void Executor::gather(Pass& pass, int64_t bucket) {
  const auto& layout = arena_.layout();
  auto label = fmt::format("gather bucket {}", bucket);
  timed(pass, [&] {
    auto& handle = gathers_[static_cast<size_t>(bucket)];
    std::exchange(handle, {}).wait();
    // Threads that write into the same memory need only know when all are done.
    if (layout.options().shares_weights) return groups_.shard.barrier(label);
    const auto part = arena_.part(bucket);
    const auto begin = layout.buckets()[static_cast<size_t>(bucket)].all.begin;
    const bool slices = layout.in_slices(schedule::Kind::Weights);
    if (slices) arena_.attach(bucket);
    auto out = arena_.bucket_weights(bucket);
    auto own = out.narrow(0, part.begin - begin, part.length());
    if (slices) own.copy_(arena_.weights(bucket, part));
    drop_offloaded(schedule::Kind::Weights, bucket);
    handle = groups_.shard.start_all_gather(out, own, label);
  });
}

void Executor::store(Pass& pass, const schedule::Instruction& i) {
  if (i.kind == schedule::Kind::Gradients) {
    const bool last = i.micro_batch + 1 == static_cast<int64_t>(pass.micro_batches.size());
    timed(pass, [&] { gradients_.complete(i.bucket, last); });
    if (last) update_.add_squares(i.bucket);
  }
  arena_.offload()->store(i.kind, i.bucket);
}

void Executor::drop_offloaded(schedule::Kind kind, int64_t bucket) {
  if (arena_.layout().offloaded(kind)) arena_.offload()->drop(kind, bucket);
}

void Executor::await_weights(Pass& pass, const schedule::Instruction& i) {
  if (groups_.shard.size() == 1) return;
  for (const int64_t bucket : schedule::reads(i, arena_.layout())) {
    auto& handle = gathers_[static_cast<size_t>(bucket)];
    timed(pass, [&] { std::exchange(handle, {}).wait(); });
  }
}

/// Adds to the time that communication takes.
template <class Work>
void Executor::timed(Pass& pass, const Work& work) const {
  const auto start = Clock::now();
  work();
  pass.wait_seconds += seconds_since(start);
}

void Executor::inject_fault(Pass& pass, const schedule::Instruction& i) {
  const Op op = i.op;
  const bool reduces = op == Op::Reduce || op == Op::ReduceScatter;
  const char* phase = op == Op::Forward    ? "forward"
                      : op == Op::Backward ? "backward"
                      : op == Op::Gather   ? "gather"
                      : op == Op::Update   ? "update"
                      : op == Op::Store    ? "offload"
                      : reduces            ? "reduce"
                                           : nullptr;
  if (phase == nullptr) return;
  const auto fault = fault_at(phase);
  if (fault == Fault::kMismatch) {
    auto extra = at::zeros({1});
    groups_.all.all_reduce(extra, comm::ReduceOp::Sum, "injected fault");
  }
  if (fault != Fault::kNan) return;
  at::NoGradGuard no_grad;
  if (op == Op::Backward) {
    pass.spoilt = true;
  } else if (reduces) {
    const auto& bucket = arena_.layout().buckets()[static_cast<size_t>(i.bucket)];
    const auto unit = static_cast<size_t>(bucket.units.front());
    auto grad = arena_.units()[unit].slots.front().param->grad();
    grad.fill_(NAN);
  } else if (op == Op::Store) {
    if (i.kind != schedule::Kind::Gradients) arena_.offload()->here(i.kind, i.bucket).fill_(NAN);
  } else if (arena_.offload() != nullptr) {  // whose weights may not be there
    settle();
    for (const int64_t bucket : schedule::reads(i, arena_.layout())) {
      arena_.bucket_weights(bucket).fill_(NAN);
    }
    const auto spoilt = op == Op::Update ? schedule::Kind::Masters : schedule::Kind::Weights;
    if (op != Op::Forward) arena_.narrow(spoilt, i.bucket, arena_.part(i.bucket)).fill_(NAN);
  } else {
    settle();
    arena_.fill(NAN);
  }
}

void Executor::fail_for_gradient(Pass& pass, const schedule::Program& program) {
  std::string who = fmt::format("on rank {}", groups_.all.rank());
  // The ranks' own gradients are summed away by now: compute them again.
  if (groups_.all.size() > 1) {
    Pass again{pass.micro_batches, pass.input};
    if (auto* offload = arena_.offload()) offload->reset();
    prepare(again, program);
    gradients_.begin_step();
    auto spoilt = at::zeros({groups_.all.size()}, at::kLong);
    for (const auto& i : program) {
      if (i.op == Op::ReduceLoss) break;
      if (i.op == Op::Store || (i.op == Op::Fetch && i.kind != schedule::Kind::Weights)) continue;
      inject_fault(again, i);
      if (i.op == Op::Reduce || i.op == Op::ReduceScatter) {
        if (!gradients_.finite(i.bucket)) spoilt[groups_.all.rank()] = 1;
      } else {
        execute(again, i);
      }
    }
    groups_.all.all_reduce(spoilt, comm::ReduceOp::Sum, "find the rank with the bad gradient");
    std::vector<int64_t> ranks;
    for (int64_t r = 0; r < groups_.all.size(); ++r) {
      if (spoilt[r].item<int64_t>() != 0) ranks.push_back(r);
    }
    who = ranks.empty() ? "although that of each rank is"
                        : fmt::format("on rank {}", fmt::join(ranks, ", "));
  }
  fail<NumericError>("train",
                     "the gradient of step {} is not finite {}; got a norm of {}; try a lower "
                     "learning_rate or look for extreme values in the data",
                     pass.input.step + 1, who, update_.result.grad_norm);
}

void Executor::forward_block(Pass& pass, int64_t block, int64_t m) {
  if (pass.micro_batches[static_cast<size_t>(m)].empty()) return;
  auto b = static_cast<size_t>(block);
  auto& ins = pass.ins[static_cast<size_t>(m)];
  auto& outs = pass.outs[static_cast<size_t>(m)];
  if (b > 0) ins[b] = detached(outs[b - 1]);
  // A loss may write gradients at once.
  if (pass.mode == nn::Mode::Train && b + 1 == blocks_.size()) bind_grads(block, m);
  outs[b] = run_block(pass, block, m);
  if (pass.recomputed.contains({block, m})) outs[b] = detached(outs[b]);
  if (pass.mode == nn::Mode::Train) return;
  ins[b].clear();
  if (b > 0) outs[b - 1].clear();
}

nn::Bundle Executor::run_block(const Pass& pass, int64_t block, int64_t m) const {
  const auto micro_batch = static_cast<size_t>(m), b = static_cast<size_t>(block);
  const auto& batch = pass.micro_batches[micro_batch];
  nn::Context context{pass.mode,      pass.input.seed, pass.input.step, block,
                      compute_dtype_, batch.samples,   loaded(batch),   batch.cache.get()};
  return blocks_[b]->forward(pass.ins[micro_batch][b], context);
}

/// Says where the gradients of the block's units go for this micro-batch.
void Executor::bind_grads(int64_t block, int64_t m) {
  for (int64_t unit : arena_.layout().table().units_of_block[static_cast<size_t>(block)]) {
    gradients_.bind(unit, m);
  }
}

void Executor::backward_block(Pass& pass, int64_t block, int64_t m) {
  auto b = static_cast<size_t>(block);
  auto& ins = pass.ins[static_cast<size_t>(m)];
  auto& outs = pass.outs[static_cast<size_t>(m)];
  bind_grads(block, m);
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

MicroBatch to_device(MicroBatch batch, at::Device device) {
  if (device.is_cpu()) return batch;
  batch.loaded = batch.inputs;
  for (auto& [name, tensor] : batch.inputs) tensor = comm::upload(tensor, device);
  return batch;
}

}  // namespace convoy::parallel
