#include "convoy/parallel/run/replica.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <fmt/ranges.h>

#include <map>
#include <utility>

#include "convoy/base/error.h"
#include "convoy/comm/agree.h"
#include "convoy/comm/broadcast_together.h"
#include "convoy/nn/declare.h"
#include "convoy/parallel/pipeline/pipeline.h"
#include "convoy/parallel/run/replicas_check.h"
#include "convoy/parallel/run/step_ids.h"

namespace convoy::parallel {

StepFacts ReplicaOptions::facts() const {
  return {.trains = trains,
          .low_precision = compute_dtype != at::kFloat,
          .state_bytes = optimizer->state_bytes(),
          .counts = counts};
}

namespace {

RunPlan plan_of(const nn::BlockList& blocks, const comm::Groups& groups,
                const ReplicaOptions& options, bool shares_weights) {
  auto facts = options.facts();
  facts.shares_weights = shares_weights;
  return plan_run(nn::declare(blocks), groups.mesh, options.parallelism, facts);
}

std::vector<at::Tensor> copies(const std::vector<nn::NamedTensor>& tensors) {
  std::vector<at::Tensor> out;
  for (const auto& each : tensors) out.push_back(each.tensor.detach().clone());
  return out;
}

/// Sends the first stage's values to `stages` alone.
void send_to_stages(const at::Tensor& values, const std::vector<int>& stages,
                    const comm::Group& pipeline, const std::string& label) {
  comm::Counts sent(static_cast<size_t>(pipeline.size()), 0), received = sent;
  const bool is_first = pipeline.rank() == 0;
  std::vector<at::Tensor> copies;
  for (const int stage : stages) {
    if (stage == 0) continue;
    if (is_first) {
      sent[static_cast<size_t>(stage)] = values.numel();
      copies.push_back(values.view({-1}));
    }
    if (stage == pipeline.rank()) received[0] = values.numel();
  }
  const auto nothing = at::empty({0}, values.options());
  pipeline.all_to_all(received[0] > 0 ? values : nothing, is_first ? at::cat(copies) : nothing,
                      label, received, sent);
}

}  // namespace

Replica::Replica(nn::BlockList blocks, comm::Groups groups, const ReplicaOptions& options,
                 bool shares_weights, Replica* lender)
    : blocks_(std::move(blocks)),
      groups_(std::move(groups)),
      options_(options),
      plan_(plan_of(blocks_, groups_, options_, shares_weights)),
      flat_(blocks_, stage().layout,
            {options_.device, options_.compute_dtype, options_.trains, groups_.mesh.place(kState),
             options_.parallelism.offload, options_.optimizer},
            lender == nullptr ? nullptr : &lender->flat_),
      rows_(blocks_, flat_, groups_.shard) {
  for (auto& buffer : buffers()) buffer.tensor.set_data(buffer.tensor.data().to(options.device));
  executor_ =
      std::make_unique<Executor>(blocks_, flat_, rows_, groups_, options.compute_dtype, plan_.step);
}

void Replica::start() {
  check_same_model();
  broadcast_leaves();
  flat_.bind();
  if (options_.fill) {
    options_.fill(*this);
  } else {
    std::set<std::string> all;
    for (const auto& slot : flat_.all_slots()) all.insert(slot.param->spec().name);
    draw(all);
  }
  share(/*moments=*/false);
}

void Replica::draw(const std::set<std::string>& names) {
  at::NoGradGuard no_grad;
  rows_.draw(names, options_.seed);
  const auto spec_of = [this](const Piece& piece) -> const nn::ParamSpec& {
    const auto& slots = flat_.units()[static_cast<size_t>(piece.unit)].slots;
    return slots[static_cast<size_t>(piece.param)].param->spec();
  };
  flat_.change_pieces([&](const Piece& piece) { return names.contains(spec_of(piece).name); },
                      [&](int64_t bucket, const Piece& piece) {
                        const auto values = flat_.masters(bucket, {piece.place, piece.end()});
                        each_row(piece, [&](const Piece& row) {
                          nn::initialize(spec_of(piece), options_.seed,
                                         values.narrow(0, row.place - piece.place, row.length),
                                         row.begin);
                        });
                      });
}

StepResult Replica::step(const std::vector<MicroBatch>& micro_batches, const StepInput& input,
                         const OptimizerOptions& optimizer) {
  internal_check(options_.trains, "parallel", "a step of a replica that does not train");
  const auto kept = input.may_give_up ? copies(buffers()) : std::vector<at::Tensor>();
  auto given = input;
  if (auto& last = *blocks_.back(); last.collects_ids()) {
    given.step_ids = collect_ids(last, micro_batches, input, groups_.rows, options_.device);
  }
  auto result = executor_->run(stage().step, micro_batches, given, optimizer);
  if (result.short_rank >= 0) {
    const at::NoGradGuard no_grad;
    auto all = buffers();
    for (size_t b = 0; b < all.size(); ++b) all[b].tensor.copy_(kept.at(b));
    return result;
  }
  broadcast_buffers();  // each rank saw other samples; evaluation and checkpoints need one truth
  if (input.check_replicas) {
    executor_->settle();
    check_replicas(flat_, groups_, input.step + 1);
  }
  return result;
}

void Replica::set_micro_batches(int64_t count, int64_t rows) {
  auto options = options_;
  options.parallelism.micro_batches = count;
  options.parallelism.rows = rows;
  auto plan = plan_of(blocks_, groups_, options, flat_.layout().options().shares_weights);
  const auto& stages = plan.of(groups_.mesh).layout.options().stages;
  if (stages != flat_.layout().options().stages) {
    fail_on_all_ranks<UsageError>(
        "parallel",
        "with micro-batches of {} rows the stages of the pipeline would hold other blocks; start "
        "with --per_device_train_batch_size {} --gradient_accumulation_steps {}",
        rows, rows, count);
  }
  options_ = std::move(options);
  plan_ = std::move(plan);
  executor_->settle();
  executor_.reset();  // and its memory
  executor_ = std::make_unique<Executor>(blocks_, flat_, rows_, groups_, options_.compute_dtype,
                                         plan_.step);
}

nn::Bundle Replica::forward(const MicroBatch& batch, nn::Mode mode) {
  if (mode == nn::Mode::Predict && !rows_.empty()) {
    fail_on_all_ranks<UsageError>(
        "parallel",
        "row_tables = true leaves no rank all rows to predict from; try convoy predict with what "
        "was saved");
  }
  return executor_->forward(stage().forward, batch, mode);
}

std::vector<nn::NamedTensor> Replica::buffers() const {
  std::vector<nn::NamedTensor> out;
  for (const auto& block : blocks_) {
    for (auto& buffer : block->buffers()) out.push_back(buffer);
  }
  return out;
}

State Replica::weights() {
  executor_->settle();
  rows_.make_up();
  auto out = weights_of(flat_, buffers(), groups_);
  rows_.add_weights(out);
  return out;
}

State Replica::moments() {
  internal_check(options_.trains, "parallel", "moments of a replica that does not train");
  rows_.make_up();
  auto out = moments_of(flat_, groups_);
  rows_.add_moments(out, flat_.states());
  return out;
}

State Replica::weights_of_host(const HostShare& share) {
  internal_check(rows_.empty(), "parallel", "row tables are on all hosts together");
  executor_->settle();
  return parallel::weights_of_host(flat_, buffers(), share);
}

State Replica::moments_of_host(const HostShare& share) {
  internal_check(options_.trains && rows_.empty(), "parallel",
                 "moments that the ranks of a host do not have among them");
  return parallel::moments_of_host(flat_, share);
}

MemoryUse Replica::memory() const {
  auto bytes = [](const at::Tensor& t) {
    return t.defined() ? t.numel() * static_cast<int64_t>(t.element_size()) : 0;
  };
  MemoryUse out;
  out.parameters = bytes(flat_.masters());
  const auto& weights = flat_.compute_weights();
  if (!weights.is_same(flat_.masters())) out.parameters += bytes(weights);
  out.gradients = bytes(flat_.grads());
  for (const auto& moment : flat_.moments()) out.optimizer += bytes(moment);
  out.parameters += rows_.weight_bytes();
  out.optimizer += rows_.optimizer_bytes();
  out.buffers += rows_.fetched_bytes();
  out.gathered = flat_.num_pooled_bytes();
  // Bytes of the gradients that later micro-batches write beside the sum, where gradients are kept
  // whole.
  const bool is_sharded = flat_.layout().is_sharded(Kind::Gradients);
  (is_sharded ? out.gathered : out.buffers) += executor_->num_pooled_gradients() * 4;
  for (const auto& buffer : buffers()) out.buffers += bytes(buffer.tensor);
  if (flat_.offload() != nullptr) {
    out.buffers += flat_.offload()->num_pooled_bytes();
    out.offloaded = flat_.offload()->num_bytes();
  }
  return out;
}

int64_t Replica::most_gathered() const {
  return stage().alive.weights * static_cast<int64_t>(at::elementSize(flat_.weight_dtype()));
}

/// Gives a user's modules rank 0's values, which travel along the pipeline to the first rank of
/// each stage that holds them, and from there to its others. They stay on the host until the flat
/// buffers take their part; values of other stages are freed.
void Replica::broadcast_leaves() {
  if (groups_.world.size() == 1) return;
  at::NoGradGuard no_grad;
  const auto& pipeline = groups_.pipeline;
  const auto& gradients = groups_.gradients;
  const auto& tensor = groups_.tensor;
  const bool leads_stage = gradients.rank() == 0 && tensor.rank() == 0;
  for (size_t u = 0; u < flat_.units().size(); ++u) {
    const auto& stages = flat_.layout().stages_of(static_cast<int64_t>(u));
    const bool held = flat_.layout().holds_unit(static_cast<int64_t>(u));
    const bool travels = leads_stage && pipeline.size() > 1 && stages.back() > 0;
    for (const auto& slot : flat_.units()[u].slots) {
      at::Tensor leaf = slot.param->leaf();
      if (!leaf.defined()) continue;
      const auto label = "broadcast " + slot.param->spec().name;
      auto values = leaf.detach();
      if (held || travels) values = values.to(options_.device).contiguous();
      if (travels) send_to_stages(values, stages, pipeline, label);
      if (!held) {
        leaf.set_data(at::empty({0}, leaf.options()));
        continue;
      }
      gradients.broadcast(values, 0, label);
      tensor.broadcast(values, 0, label);
      if (values.data_ptr() != leaf.data_ptr()) leaf.detach().copy_(values);
    }
  }
}

/// Broadcasts the buffers of the first rank of the stage that runs their block.
void Replica::broadcast_buffers() {
  if (groups_.world.size() == 1) return;
  at::NoGradGuard no_grad;
  std::map<int, std::vector<at::Tensor>> of_stages;
  for (size_t b = 0; b < blocks_.size(); ++b) {
    auto& buffers = of_stages[flat_.layout().stage_of(static_cast<int64_t>(b))];
    for (auto& buffer : blocks_[b]->buffers()) buffers.push_back(buffer.tensor);
  }
  for (const auto& [stage, buffers] : of_stages) {
    comm::broadcast_together(groups_.gradients, buffers, 0, "broadcast buffers");
    comm::broadcast_together(groups_.pipeline, buffers, stage, "broadcast buffers");
  }
}

/// Throws UsageError, naming the parameter, unless all ranks have rank 0's names and shapes, and
/// train the same.
void Replica::check_same_model() const {
  std::vector<std::string> entries;
  auto add = [&](const char* kind, const std::string& name, at::IntArrayRef shape,
                 const char* more = "") {
    entries.push_back(fmt::format("{} '{}' [{}]{}", kind, name, fmt::join(shape, ", "), more));
  };
  for (const auto& block : blocks_) {
    for (const auto& param : block->params()) {
      const auto& spec = param->spec();
      add("parameter", spec.name, spec.shape, spec.trainable ? "" : " without gradient");
    }
    for (const auto& buffer : block->buffers()) add("buffer", buffer.name, buffer.tensor.sizes());
  }
  for (const auto& blocks : flat_.layout().options().stages) {
    entries.push_back(fmt::format("stage of blocks {}, {}", fmt::join(blocks, " "),
                                  options_.parallelism.pipeline.schedule->name));
  }
  comm::check_agreement(groups_.world, entries, "model");
}

/// Gathers state that is kept whole from the parts of all ranks.
void Replica::gather_whole(Kind kind, const std::string& what) {
  const auto& layout = flat_.layout();
  for (int64_t bucket = 0; bucket < layout.num_buckets(kind); ++bucket) {
    if (layout.is_sharded(kind, bucket)) continue;
    const auto& all = layout.buckets()[static_cast<size_t>(bucket)].all;
    flat_.change(bucket, {kind}, [&] {
      const auto part = flat_.part(bucket);
      const size_t count = kind == Kind::Moments ? flat_.moments().size() : 1;
      for (size_t k = 0; k < count; ++k) {
        const auto& shard = groups_.shard_of(layout.of_experts(bucket));
        shard.all_gather(flat_.narrow(kind, bucket, all, k), flat_.narrow(kind, bucket, part, k),
                         fmt::format("gather {} of bucket {}", what, bucket));
      }
    });
  }
}

void Replica::share(bool moments) {
  executor_->settle();
  rows_.restart();
  const auto& layout = flat_.layout();
  if (layout.options().shares_weights) groups_.shard.barrier("share weights");
  const bool gathers = groups_.shard.size() > 1 && !layout.options().shares_weights;
  if (gathers) gather_whole(Kind::Masters, "weights");
  if (!layout.options().shares_weights || groups_.shard.rank() == 0) flat_.publish_weights();
  const bool frozen = layout.num_trained_buckets() < layout.num_buckets();
  const bool apart = layout.options().low_precision && (layout.is_sharded(Kind::Masters) || frozen);
  if (gathers && apart) gather_whole(Kind::Weights, "weights");
  if (moments && gathers) gather_whole(Kind::Moments, "moments");
  broadcast_buffers();
  if (layout.options().shares_weights) groups_.shard.barrier("weights are shared");
}

}  // namespace convoy::parallel
