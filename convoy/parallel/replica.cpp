#include "convoy/parallel/replica.h"

#include <ATen/Functions.h>
#include <fmt/ranges.h>

#include "convoy/base/error.h"
#include "convoy/comm/agreement.h"

namespace convoy::parallel {

Replica::Replica(nn::BlockList blocks, comm::Group group, const ReplicaOptions& options,
                 Replica* share_weights_with)
    : blocks_(std::move(blocks)),
      group_(std::move(group)),
      options_(options),
      arena_(blocks_, {options.device, options.compute_dtype, options.trains},
             share_weights_with != nullptr ? &share_weights_with->arena_ : nullptr),
      buckets_(schedule::make_buckets(arena_.table(), options.bucket_bytes)),
      program_(schedule::data_parallel_program(arena_.table(), buckets_, options.num_micro_batches,
                                               recomputed_blocks())) {
  schedule::check(program_, arena_.table(), buckets_, options.num_micro_batches);
  const bool owns_weights = share_weights_with == nullptr;
  if (owns_weights) {
    // The others get rank 0's.
    if (group_.rank() == 0) {
      options.fill ? options.fill(*this) : arena_.initialize(options.seed);
    }
    if (options.trains) {
      arena_.first_moments() = at::zeros_like(arena_.masters());
      arena_.second_moments() = at::zeros_like(arena_.masters());
    }
  } else {
    arena_.first_moments() = share_weights_with->arena_.first_moments();
    arena_.second_moments() = share_weights_with->arena_.second_moments();
  }
  for (auto& buffer : buffers()) buffer.tensor.set_data(buffer.tensor.data().to(options.device));
  executor_ = std::make_unique<Executor>(blocks_, arena_, group_, options.compute_dtype, buckets_,
                                         owns_weights);
}

std::set<int64_t> Replica::recomputed_blocks() const {
  std::set<int64_t> out;
  if (!options_.recompute) return out;
  for (size_t b = 0; b + 1 < blocks_.size(); ++b) {  // the last one's backward follows at once
    if (blocks_[b]->repeatable()) out.insert(static_cast<int64_t>(b));
  }
  if (out.empty()) {
    fail<UsageError>("parallel",
                     "gradient_checkpointing needs a model of several blocks; got {}; try without "
                     "it",
                     blocks_.size() == 1 ? "one" : "modules whose forward cannot be repeated");
  }
  return out;
}

void Replica::draw(const std::set<std::string>& names) {
  arena_.initialize(options_.seed, &names);
}

StepResult Replica::step(const std::vector<MicroBatch>& micro_batches, const StepInput& input,
                         const OptimizerOptions& optimizer) {
  internal_check(options_.trains, "parallel", "a step of a replica that does not train");
  std::vector<MicroBatch> here;
  for (const auto& batch : micro_batches) here.push_back(to_device(batch, options_.device));
  auto result = executor_->run(program_, here, input, optimizer);
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

void Replica::broadcast_buffers() {
  if (group_.size() == 1) return;
  at::NoGradGuard no_grad;
  for (auto& buffer : buffers()) {
    auto copy = buffer.tensor.detach().contiguous();
    group_.broadcast(copy, 0, "broadcast buffer " + buffer.name);
    if (!copy.is_same(buffer.tensor)) buffer.tensor.copy_(copy);
  }
}

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
  comm::check_agreement(group_, entries, "model");
}

void Replica::broadcast_model() {
  if (group_.size() == 1) return;
  group_.broadcast(arena_.masters(), 0, "broadcast weights");
  if (arena_.frozen_values().numel() > 0) {
    group_.broadcast(arena_.frozen_values(), 0, "broadcast frozen weights");
  }
  broadcast_buffers();
  arena_.publish_weights();
}

void Replica::broadcast_moments() {
  if (group_.size() == 1 || !options_.trains) return;
  group_.broadcast(arena_.first_moments(), 0, "broadcast first moments");
  group_.broadcast(arena_.second_moments(), 0, "broadcast second moments");
}

}  // namespace convoy::parallel
