#include "convoy/parallel/run/pass.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <optional>

#include "convoy/base/error.h"
#include "convoy/base/fault.h"
#include "convoy/comm/device.h"
#include "convoy/comm/to_host.h"
#include "convoy/nn/documents.h"
#include "convoy/nn/root_gradient.h"
#include "convoy/parallel/run/pass_observer.h"

namespace convoy::parallel {

namespace {

/// Copies a batch's inputs to `device`.
MicroBatch to_device(MicroBatch batch, at::Device device) {
  if (device.is_cpu()) return batch;
  batch.loaded = batch.inputs;
  for (auto& [name, tensor] : batch.inputs) tensor = comm::upload(tensor, device);
  return batch;
}

const nn::Bundle* loaded(const MicroBatch& batch) {
  return batch.loaded.empty() ? &batch.inputs : &batch.loaded;
}

/// Moves out the gradients that backward left at a block's inputs.
nn::Bundle taken_grads(nn::Bundle& in) {
  nn::Bundle out;
  for (const auto& [name, leaf] : std::exchange(in, {})) {
    if (leaf.requires_grad() && leaf.grad().defined()) out[name] = leaf.grad();
  }
  return out;
}

}  // namespace

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

namespace {

/// Checks that the loss depends on a trained weight, unless there are no targets.
void check_loss(const at::Tensor& loss, const nn::Bundle& out, const Layout& layout) {
  if (loss.requires_grad()) return;
  bool trains = false;
  for (int64_t unit = 0; unit < layout.table().num_units(); ++unit) {
    trains = trains || !layout.table().is_frozen(unit);
  }
  const auto count = out.find("count");
  if (!trains || count == out.end() || comm::item<double>(count->second) == 0) return;
  fail<UsageError>("parallel",
                   "the loss of a batch needs no gradient although it has {} targets: it was "
                   "detached, computed without gradients, or hangs on no trained weight",
                   comm::item<double>(count->second));
}

}  // namespace

Pass::Pass(const nn::BlockList& blocks, const Layout& layout, Gradients& gradients,
           const PassInput& input, const Program& program)
    : blocks_(blocks),
      layout_(layout),
      gradients_(gradients),
      input_(input),
      batches_(input.micro_batches.size()),
      backwards_left_(input.micro_batches.size()),
      shared_(nn::read_by_several(blocks)) {
  ins_.assign(input.micro_batches.size(), std::vector<nn::Bundle>(blocks.size()));
  outs_ = grads_ = ins_;
  for (const auto& i : program) {
    if (i.op == Op::Recompute) recomputed_.insert({i.block, i.micro_batch});
    if (i.op == Op::Backward || i.op == Op::BackwardInput || i.op == Op::BackwardWeight) {
      ++backwards_left_[static_cast<size_t>(i.micro_batch)];
    }
  }
}

void Pass::give_up() {
  given_up_ = true;
  put_off_.clear();
  for (auto* all : {&ins_, &outs_, &grads_}) {
    for (auto& bundles : *all) bundles.assign(bundles.size(), {});
  }
  batches_.assign(batches_.size(), {});
}

void Pass::load(int64_t m) {
  if (given_up_) return;
  const auto index = static_cast<size_t>(m);
  const auto& given = input_.micro_batches.at(index);
  nn::check_documents(given.inputs, blocks_, input_.context.size());
  batches_[index] = to_device(given, input_.device);
  if (layout_.holds(0)) at(ins_, 0, m) = batches_[index].inputs;
}

void Pass::forward(int64_t block, int64_t m) {
  if (empty(m)) return serve(block, m, /*first=*/true);
  const bool trains = input_.mode == nn::Mode::Train;
  const bool continues = block > 0 && layout_.holds(block - 1);
  auto &in = at(ins_, block, m), &out = at(outs_, block, m);
  if (continues) in = detached(at(outs_, block - 1, m));
  // A loss may write gradients at once.
  if (trains && block + 1 == static_cast<int64_t>(blocks_.size())) bind_grads(block, m);
  out = run(block, m);
  if (trains && input_.step.observer != nullptr) {
    input_.step.observer->output(block, m, input_.micro_batches[static_cast<size_t>(m)].samples,
                                 out);
  }
  if (recomputed_.contains({block, m})) out = detached(out);
  if (trains) return;
  in.clear();
  if (continues) at(outs_, block - 1, m).clear();
}

void Pass::recompute(int64_t block, int64_t m) {
  if (empty(m)) {
    if (learns_without_rows(block)) serve(block, m, /*first=*/false);
    return;
  }
  if (learns(block, m)) at(outs_, block, m) = run(block, m, /*recomputes=*/true);
}

/// Whether a block's backward has anything to compute; blocks below the first trained one have not.
bool Pass::learns(int64_t block, int64_t m) const {
  const auto b = static_cast<size_t>(block);
  if (!layout_.row_units().empty()) return true;
  for (const int64_t unit : layout_.table().units_of_block[b]) {
    if (!layout_.table().is_frozen(unit)) return true;
  }
  const auto& in = ins_[static_cast<size_t>(m)][b];
  return std::any_of(in.begin(), in.end(), [](const auto& e) { return e.second.requires_grad(); });
}

nn::Bundle Pass::run(int64_t block, int64_t m, bool recomputes) const {
  const at::AutoGradMode grad(at::GradMode::is_enabled() && learns(block, m));
  const auto& batch = batches_[static_cast<size_t>(m)];
  auto context = context_of(block);
  context.samples = batch.samples;
  context.loaded = loaded(batch);
  context.cache = batch.cache.get();
  context.recomputes = recomputes;
  if (input_.step.step_ids.ids.defined()) context.step_ids = &input_.step.step_ids;
  const bool trains = input_.mode == nn::Mode::Train;
  if (trains && fault_at("mask") == Fault::kDouble) context.samples = 2 * batch.samples;
  const auto b = static_cast<size_t>(block);
  return blocks_[b]->forward(ins_[static_cast<size_t>(m)][b], context);
}

nn::Context Pass::context_of(int64_t block) const {
  return {.mode = input_.mode,
          .seed = input_.step.seed,
          .step = input_.step.step,
          .block = block,
          .compute_dtype = input_.compute_dtype,
          .tensor = input_.tensor,
          .sequence_parallel = input_.sequence_parallel,
          .context = input_.context,
          .experts = input_.experts,
          .expert_joined = input_.expert_joined};
}

/// Computes with other ranks' rows in a micro-batch without own ones. The `first` of two forwards
/// keeps nothing.
void Pass::serve(int64_t block, int64_t m, bool first) {
  if (input_.experts.size() == 1) return;
  const bool recomputes = first && recomputed_.contains({block, m});
  const at::AutoGradMode grad(at::GradMode::is_enabled() && learns_without_rows(block));
  at(outs_, block, m) = blocks_[static_cast<size_t>(block)]->serve(context_of(block));
  if (recomputes) at(outs_, block, m).clear();
}

/// Whether the block's backward computes on the ranks that have rows, all of whom wait for it.
bool Pass::learns_without_rows(int64_t block) const {
  for (int64_t b = 0; b <= block; ++b) {
    for (const auto& param : blocks_[static_cast<size_t>(b)]->params()) {
      if (param->spec().trainable) return true;
    }
  }
  return false;
}

/// Binds the memory that the gradients of the block's units are written to in this micro-batch.
void Pass::bind_grads(int64_t block, int64_t m) {
  for (int64_t unit : layout_.table().units_of_block[static_cast<size_t>(block)]) {
    if (!layout_.table().is_frozen(unit)) gradients_.bind(unit, m);
  }
}

void Pass::backward(int64_t block, int64_t m) {
  run_backward(block, m);
  count_backward(m);
}

void Pass::backward_input(int64_t block, int64_t m) {
  std::optional<nn::DeferredWeightGrads> put_off;
  if (!empty(m)) {
    put_off.emplace(*blocks_[static_cast<size_t>(block)], shared_, put_off_[{block, m}]);
  }
  run_backward(block, m);
  put_off.reset();
  count_backward(m);
}

void Pass::backward_weight(int64_t block, int64_t m) {
  bind_grads(block, m);
  if (auto writes = put_off_.extract({block, m})) {
    for (const auto& write : writes.mapped()) write();
  }
  count_backward(m);
}

void Pass::run_backward(int64_t block, int64_t m) {
  bind_grads(block, m);
  auto& out = at(outs_, block, m);
  if (empty(m)) {
    for (const auto& [name, served] : std::exchange(out, {})) {
      if (served.requires_grad()) torch::autograd::backward({served}, {at::zeros_like(served)});
    }
    return;
  }
  std::vector<at::Tensor> roots, grads;
  if (block + 1 == static_cast<int64_t>(blocks_.size())) {
    roots.push_back(required(out, "loss"));
    check_loss(roots.back(), out, layout_);
    grads.push_back(nn::root_gradient(roots.back(), input_.step.loss_scale));
  } else {
    const auto taken = take_gradient_after(block, m);
    if (input_.step.observer != nullptr) {
      input_.step.observer->gradient(block, m, input_.micro_batches[static_cast<size_t>(m)].samples,
                                     taken);
    }
    for (const auto& [name, grad] : taken) {
      roots.push_back(out.at(name));
      grads.push_back(grad);
    }
  }
  if (!roots.empty() && roots[0].requires_grad()) torch::autograd::backward(roots, grads);
  out.clear();
}

/// Counts a backward of a micro-batch, which leaves the device after its last one here.
void Pass::count_backward(int64_t m) {
  const auto index = static_cast<size_t>(m);
  if (--backwards_left_[index] > 0) return;
  batches_[index] = {};
  if (layout_.holds(0)) at(ins_, 0, m).clear();
}

/// Moves out the gradients of a block's result, by name.
nn::Bundle Pass::take_gradient_after(int64_t block, int64_t m) {
  if (layout_.holds(block + 1)) return taken_grads(at(ins_, block + 1, m));
  return std::exchange(at(grads_, block, m), {});
}

nn::Bundle Pass::outgoing(const Instruction& i) {
  if (i.op == Op::SendGrad) return taken_grads(at(ins_, i.block + 1, i.micro_batch));
  auto& out = at(outs_, i.block, i.micro_batch);
  const bool kept =
      input_.mode == nn::Mode::Train && !recomputed_.contains({i.block, i.micro_batch});
  return kept ? out : std::exchange(out, {});
}

void Pass::transfer(const Instruction& i, P2PCommunication& p2p) {
  if (has_no_rows(i.micro_batch)) return;  // on all stages alike
  const auto& batches = given_up_ ? input_.micro_batches : batches_;
  const auto& batch = batches[static_cast<size_t>(i.micro_batch)].inputs;
  if (sends(i.op)) {
    if (given_up_) return p2p.tell_given_up(i);
    return p2p.send(i, outgoing(i), i.op == Op::Send ? batch : nn::Bundle());
  }
  const bool forth = i.op == Op::Receive;
  auto bundle = p2p.receive(i, forth ? batch : nn::Bundle());
  if (!bundle) give_up();
  if (given_up_) return;
  (forth ? at(ins_, i.block + 1, i.micro_batch) : at(grads_, i.block, i.micro_batch)) =
      std::move(*bundle);
}

}  // namespace convoy::parallel
