#include "convoy/parallel/replica.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <fmt/ranges.h>

#include <utility>

#include "convoy/base/error.h"
#include "convoy/comm/agree.h"

namespace convoy::parallel {

using schedule::Kind;

ArenaOptions arena_options(const nn::BlockList& blocks, const ReplicaOptions& options,
                           const RankPlace& place, bool shares_weights) {
  ArenaOptions out{options.device, options.compute_dtype, options.trains, place.part};
  out.layout.stage = options.zero;
  out.layout.num_parts = place.num_parts;
  out.layout.shares_weights = shares_weights;
  out.layout.bucket_bytes = options.bucket_bytes;
  out.layout.keep_bytes = options.keep_bytes;
  if (place.num_stages > 1) {
    out.layout.stages = cut_into_stages(blocks, place.num_stages, options.pipeline);
    out.layout.pipeline_stage = place.stage;
  }
  out.offload = options.offload;
  return out;
}

schedule::Layout layout_of(const nn::BlockList& blocks, ReplicaOptions options,
                           const RankPlace& place) {
  options.device = at::kMeta;
  return Arena(blocks, arena_options(blocks, options, place), nullptr).layout();
}

schedule::StepOptions step_options(const nn::BlockList& blocks, const ReplicaOptions& options) {
  schedule::StepOptions out{options.num_micro_batches,
                            {},
                            options.prefetch,
                            options.reshard_after_forward,
                            options.reduce_each};
  if (!options.recompute) return out;
  for (size_t b = 0; b + 1 < blocks.size(); ++b) {  // the last one's backward follows at once
    if (blocks[b]->repeatable()) out.recomputed.insert(static_cast<int64_t>(b));
  }
  if (out.recomputed.empty()) {
    fail<UsageError>("parallel",
                     "gradient_checkpointing needs a model of several blocks; got {}; try without "
                     "it",
                     blocks.size() == 1 ? "one" : "modules whose forward cannot be repeated");
  }
  return out;
}

namespace {

RankPlace place_of(const DataGroups& groups) {
  return {groups.shard.rank(), groups.shard.size(), groups.pipeline.rank(), groups.pipeline.size()};
}

}  // namespace

Replica::Replica(nn::BlockList blocks, DataGroups groups, const ReplicaOptions& options,
                 bool shares_weights, Replica* lender)
    : blocks_(std::move(blocks)),
      groups_(std::move(groups)),
      options_(options),
      arena_(blocks_, arena_options(blocks_, options_, place_of(groups_), shares_weights),
             lender == nullptr ? nullptr : &lender->arena_) {
  auto programs = make_programs(arena_.layout(), options_.pipeline.schedule,
                                step_options(blocks_, options_), options_.trains);
  const auto own = static_cast<size_t>(groups_.pipeline.rank());
  forward_program_ = std::move(programs.forwards[own]);
  if (options_.trains) {
    if (groups_.pipeline.size() > 1) timeline_ = programs.timeline(product_costs(blocks_));
    program_ = std::move(programs.steps[own]);
    alive_ = programs.alive[own];
  }
  for (auto& buffer : buffers()) buffer.tensor.set_data(buffer.tensor.data().to(options.device));
  executor_ = std::make_unique<Executor>(blocks_, arena_, groups_, options.compute_dtype,
                                         step_options(blocks_, options_));
}

void Replica::start() {
  check_same_model();
  broadcast_leaves();
  arena_.bind();
  if (options_.fill) {
    options_.fill(*this);
  } else {
    std::set<std::string> all;
    for (const auto& slot : arena_.all_slots()) all.insert(slot.param->spec().name);
    draw(all);
  }
  share(/*moments=*/false);
}

void Replica::draw(const std::set<std::string>& names) {
  at::NoGradGuard no_grad;
  const auto& layout = arena_.layout();
  for (const auto& piece : layout.pieces(arena_.rank())) {
    const auto& slots = arena_.units()[static_cast<size_t>(piece.unit)].slots;
    const auto& spec = slots[static_cast<size_t>(piece.param)].param->spec();
    if (!names.contains(spec.name)) continue;
    const int64_t bucket = layout.bucket_of(piece.unit);
    arena_.change(bucket, {Kind::Masters}, [&] {
      nn::initialize(spec, options_.seed,
                     arena_.masters(bucket, {piece.place, piece.place + piece.length}),
                     piece.begin);
    });
  }
}

StepResult Replica::step(const std::vector<MicroBatch>& micro_batches, const StepInput& input,
                         const OptimizerOptions& optimizer) {
  internal_check(options_.trains, "parallel", "a step of a replica that does not train");
  auto result = executor_->run(program_, micro_batches, input, optimizer);
  broadcast_buffers();  // each rank saw other samples; evaluation and checkpoints need one truth
  return result;
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
  return weights_of(arena_, buffers(), groups_);
}

State Replica::moments() {
  internal_check(options_.trains, "parallel", "moments of a replica that does not train");
  return moments_of(arena_, groups_);
}

MemoryUse Replica::memory() const {
  auto bytes = [](const at::Tensor& t) {
    return t.defined() ? t.numel() * static_cast<int64_t>(t.element_size()) : 0;
  };
  MemoryUse out;
  out.parameters = bytes(arena_.masters());
  const auto& weights = arena_.compute_weights();
  if (!weights.is_same(arena_.masters())) out.parameters += bytes(weights);
  out.gradients = bytes(arena_.grads());
  for (const auto& moment : arena_.moments()) out.optimizer += bytes(moment);
  out.gathered = arena_.num_pooled_bytes();
  // Where gradients are kept whole, what later micro-batches write beside the sum.
  const bool in_slices = arena_.layout().in_slices(Kind::Gradients);
  (in_slices ? out.gathered : out.buffers) += executor_->num_pooled_gradients() * 4;
  for (const auto& buffer : buffers()) out.buffers += bytes(buffer.tensor);
  if (arena_.offload() != nullptr) {
    out.buffers += arena_.offload()->num_pooled_bytes();
    out.offloaded = arena_.offload()->num_bytes();
  }
  return out;
}

int64_t Replica::most_gathered() const {
  return alive_.weights * static_cast<int64_t>(at::elementSize(arena_.weight_dtype()));
}

/// A user's modules start with rank 0's values. They stay on the host until the arena takes its
/// part of them; what other stages hold is given up.
void Replica::broadcast_leaves() {
  const auto& world = groups_.world;
  if (world.size() == 1) return;
  at::NoGradGuard no_grad;
  for (size_t u = 0; u < arena_.units().size(); ++u) {
    const bool held = arena_.layout().holds_unit(static_cast<int64_t>(u));
    for (const auto& slot : arena_.units()[u].slots) {
      at::Tensor leaf = slot.param->leaf();
      if (!leaf.defined()) continue;
      auto values = leaf.detach().to(options_.device).contiguous();
      world.broadcast(values, 0, "broadcast " + slot.param->spec().name);
      if (!held) {
        leaf.set_data(at::empty({0}, leaf.options()));
      } else if (values.data_ptr() != leaf.data_ptr()) {
        leaf.detach().copy_(values);
      }
    }
  }
}

/// Those of the first rank of the stage that runs their block.
void Replica::broadcast_buffers() {
  if (groups_.world.size() == 1) return;
  at::NoGradGuard no_grad;
  for (size_t b = 0; b < blocks_.size(); ++b) {
    const int stage = arena_.layout().stage_of(static_cast<int64_t>(b));
    for (auto& buffer : blocks_[b]->buffers()) {
      auto copy = buffer.tensor.detach().contiguous();
      const auto label = "broadcast buffer " + buffer.name;
      if (groups_.all.size() > 1) groups_.all.broadcast(copy, 0, label);
      if (groups_.pipeline.size() > 1) groups_.pipeline.broadcast(copy, stage, label);
      if (!copy.is_same(buffer.tensor)) buffer.tensor.copy_(copy);
    }
  }
}

/// Throws UsageError, naming the parameter, unless all ranks have rank 0's names and shapes.
void Replica::check_same_model() const {
  std::vector<std::string> entries;
  auto add = [&](const char* kind, const std::string& name, at::IntArrayRef shape) {
    entries.push_back(fmt::format("{} '{}' [{}]", kind, name, fmt::join(shape, ", ")));
  };
  for (const auto& block : blocks_) {
    for (const auto& param : block->params()) {
      add("parameter", param->spec().name, param->spec().shape);
    }
    for (const auto& buffer : block->buffers()) add("buffer", buffer.name, buffer.tensor.sizes());
  }
  for (const auto& blocks : arena_.layout().options().stages) {
    entries.push_back(fmt::format("stage of blocks {}, {}", fmt::join(blocks, " "),
                                  schedule::name_of(options_.pipeline.schedule)));
  }
  comm::check_agreement(groups_.world, entries, "model");
}

/// Completes what is kept whole from everyone's own parts.
void Replica::gather_whole(Kind kind, const std::string& what) {
  const auto& layout = arena_.layout();
  for (int64_t bucket = 0; bucket < layout.num_buckets(kind); ++bucket) {
    if (layout.in_slices(kind, bucket)) continue;
    const auto& all = layout.buckets()[static_cast<size_t>(bucket)].all;
    arena_.change(bucket, {kind}, [&] {
      const auto part = arena_.part(bucket);
      const size_t count = kind == Kind::Moments ? arena_.moments().size() : 1;
      for (size_t k = 0; k < count; ++k) {
        groups_.shard.all_gather(arena_.narrow(kind, bucket, all, k),
                                 arena_.narrow(kind, bucket, part, k),
                                 fmt::format("gather {} of bucket {}", what, bucket));
      }
    });
  }
}

void Replica::share(bool moments) {
  executor_->settle();
  const auto& layout = arena_.layout();
  if (layout.options().shares_weights) groups_.shard.barrier("share weights");
  const bool gathers = groups_.shard.size() > 1 && !layout.options().shares_weights;
  if (gathers) gather_whole(Kind::Masters, "weights");
  if (!layout.options().shares_weights || groups_.shard.rank() == 0) arena_.publish_weights();
  const bool apart = layout.options().low_precision && layout.in_slices(Kind::Masters);
  if (gathers && apart) gather_whole(Kind::Weights, "weights");
  if (moments && gathers) gather_whole(Kind::Moments, "moments");
  broadcast_buffers();
  if (layout.options().shares_weights) groups_.shard.barrier("weights are shared");
}

}  // namespace convoy::parallel
