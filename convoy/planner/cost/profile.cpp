#include "convoy/planner/cost/profile.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "convoy/base/tensor_memory.h"
#include "convoy/base/timing.h"
#include "convoy/nn/losses/cross_entropy.h"
#include "convoy/nn/shapes_only.h"
#include "convoy/planner/cost/bind_params.h"
#include "convoy/planner/cost/cost_key.h"
#include "convoy/planner/cost/skipped_products.h"

namespace convoy::planner {

namespace {

/// Least and largest number of runs of a block, of which the first does not count. Blocks faster
/// than kShort seconds run more often, as other processes soon disturb them.
constexpr int kRuns = 2, kMostRuns = 9;
constexpr double kShort = 0.1;

int runs_for(double seconds_of_one) {
  const double more = std::min<double>(kMostRuns, kShort / std::max(seconds_of_one, 1e-9));
  return std::clamp(1 + static_cast<int>(more), kRuns, kMostRuns);
}

/// Simulates all other blocks, which a training computes between two runs of a block: the block's
/// data have left the caches by then, and what the caches hold must be written back.
class OtherBlocks {
 public:
  OtherBlocks(const nn::BlockList& blocks, const nn::Block& one) {
    for (const auto& block : blocks) {
      if (block.get() == &one) continue;
      ++number_;
      for (const auto& param : block->params()) {
        weight_bytes_ += 2 * kWidth * parallel::num_elements(param->shape());  // and gradients
      }
    }
  }

  /// Reads and writes as many bytes as the other blocks, if each keeps `kept_bytes` for its
  /// backward, or more than any cache holds.
  void touch(int64_t kept_bytes) {
    constexpr int64_t kMost = int64_t{48} << 20;
    const auto bytes = std::min(kMost, weight_bytes_ + number_ * kept_bytes);
    memory_.resize(static_cast<size_t>(bytes / kWidth));
    for (auto& value : memory_) value += 1;
  }

 private:
  static constexpr int64_t kWidth = sizeof(float);

  int64_t weight_bytes_ = 0, number_ = 0;
  std::vector<float> memory_;
};

/// Parameters of blocks behind block `b`, whose backward has written their gradients before its.
std::set<const nn::Param*> read_behind(const nn::BlockList& blocks, size_t b) {
  std::set<const nn::Param*> out;
  for (size_t behind = b + 1; behind < blocks.size(); ++behind) {
    for (const auto& param : blocks[behind]->params()) out.insert(param.get());
  }
  return out;
}

/// Returns the growth of memory, at least 0: other threads of the process may free small tensors
/// meanwhile.
int64_t grown(int64_t before, int64_t after) {
  return std::max<int64_t>(0, after - before);
}

class BlockRun {
 public:
  BlockRun(nn::Block& block, const parallel::MicroBatch& batch, const ProfileOptions& options,
           int64_t number, OtherBlocks* others = nullptr, nn::Mode mode = nn::Mode::Train)
      : block_(block),
        batch_(batch),
        options_(options),
        number_(number),
        others_(others),
        mode_(mode) {}

  /// Parameters whose gradients other blocks have written before: a backward adds to them.
  void set_written(std::set<const nn::Param*> written) { written_ = std::move(written); }

  /// Runs the block; returns its result without its graph.
  nn::Bundle run(const nn::Bundle& given) {
    for (const auto& param : block_.params()) {
      if (!param->spec().trainable) continue;
      param->bind_grad(param->grad(), written_.contains(param.get()));
    }
    auto in = parallel::detached(given);
    tensor_memory.take_peak();
    const int64_t before = tensor_memory.held();
    prepare();
    auto began = std::chrono::steady_clock::now();
    auto traffic = options_.tensor.traffic(), ring = options_.context.traffic();
    auto out = forward(in);
    meet_in_layers();
    cost.forward_seconds = seconds_since(began);
    take_sums(traffic, cost.forward_sums, cost.forward_sum_bytes);
    take_messages(ring, cost.forward_messages, cost.forward_message_bytes);
    const int64_t after = tensor_memory.held();
    cost.forward_bytes = grown(before, tensor_memory.take_peak());
    cost.kept_bytes = grown(before, after);
    cost.returned_bytes = cost.sent_bytes = cost.sent_parts = 0;
    cost.grad_bytes = cost.grad_parts = 0;
    for (const auto& [name, tensor] : out) {
      const auto bytes = static_cast<int64_t>(tensor.nbytes());
      if (!holds(in, name, tensor)) cost.returned_bytes += bytes;
      if (!holds(batch_.inputs, name, tensor)) {
        cost.sent_bytes += bytes;
        ++cost.sent_parts;
      }
      if (tensor.requires_grad()) {
        cost.grad_bytes += bytes;
        ++cost.grad_parts;
      }
    }
    const Roots roots(out);
    auto result = parallel::detached(out);
    prepare();
    began = std::chrono::steady_clock::now();
    roots.backward();
    meet_in_layers();
    cost.backward_seconds = seconds_since(began);
    take_sums(traffic, cost.backward_sums, cost.backward_sum_bytes);
    take_messages(ring, cost.backward_messages, cost.backward_message_bytes);
    cost.backward_bytes = grown(after, tensor_memory.take_peak());
    return result;
  }

  /// Runs the block with a backward in halves; gradients of `shared` parameters are in the first.
  void run_halves(const nn::Bundle& given, const std::set<const nn::Param*>& shared) {
    for (const auto& param : block_.params()) {
      if (param->spec().trainable) param->bind_grad(param->grad());
    }
    const int64_t before = tensor_memory.held();
    nn::DeferredWrites writes;
    {
      const auto in = with_copies(given);
      auto out = forward(in);
      tensor_memory.take_peak();
      const int64_t after = tensor_memory.held();
      const Roots roots(std::exchange(out, {}));
      const nn::DeferredWeightGrads put_off(block_, shared, writes);
      roots.backward();
      cost.half_bytes = grown(after, tensor_memory.take_peak());
    }
    cost.put_off_bytes = grown(before, tensor_memory.held());
    prepare();
    const auto began = std::chrono::steady_clock::now();
    for (const auto& write : std::exchange(writes, {})) write();
    cost.weight_seconds = std::min(seconds_since(began), cost.backward_seconds);
  }

  nn::Context context() const {
    return {.mode = mode_,
            .seed = options_.seed,
            .block = number_,
            .compute_dtype = options_.compute_dtype,
            .samples = batch_.samples,
            .loaded = &batch_.inputs,
            .tensor = options_.tensor,
            .sequence_parallel = options_.sequence_parallel,
            .context = options_.context};
  }

  /// Cost that a thread alone found for the block, where several threads profile at once; else
  /// `own`.
  const BlockCost& alone_or(const BlockCost& own) const {
    const auto* neighbours = options_.neighbours;
    return neighbours ? neighbours->alone().at(static_cast<size_t>(number_)) : own;
  }

  BlockCost cost;

 private:
  /// Puts caches and neighbouring threads into the state that a training has.
  void prepare() {
    if (others_ != nullptr) others_->touch(alone_or(cost).kept_bytes);
    if (options_.neighbours) options_.neighbours->meet();
  }
  /// Meets the ranks that communicate inside of layers, which wait for the slowest.
  void meet_in_layers() {
    if (options_.neighbours && options_.tensor.size() * options_.context.size() > 1) {
      options_.neighbours->meet();
    }
  }
  /// Adds the reductions over tensor ranks since `before`, and sets `before` to now.
  void take_sums(comm::Traffic& before, int64_t& sums, int64_t& bytes) const {
    const auto now = options_.tensor.traffic();
    sums = now.collectives - before.collectives;
    bytes = now.sum_bytes - before.sum_bytes;
    before = now;
  }
  /// Adds the messages in the ring of context ranks since `before`, and sets `before` to now.
  void take_messages(comm::Traffic& before, int64_t& messages, int64_t& bytes) const {
    const auto now = options_.context.traffic();
    messages = now.collectives - before.collectives;
    bytes = now.bytes - before.bytes;
    before = now;
  }
  nn::Bundle forward(const nn::Bundle& in) const { return block_.forward(in, context()); }

  nn::Block& block_;
  const parallel::MicroBatch& batch_;
  const ProfileOptions& options_;
  int64_t number_;
  OtherBlocks* others_;  // null: time does not count
  nn::Mode mode_;
  std::set<const nn::Param*> written_;
};

/// Scope in which blocks run as the options say, on their rank's share of the parameters.
class Setting {
 public:
  Setting(const nn::BlockList& blocks, const parallel::MicroBatch& batch,
          const ProfileOptions& options) {
    if (options.gpu_rows > 0) {
      skipped_.emplace();
      shapes_.emplace();
      scores_.emplace(static_cast<double>(options.gpu_rows) /
                      static_cast<double>(batch.samples.numel()));
    }
    for (const auto& block : blocks) {
      for (const auto& param : block->params()) {
        param->cut({options.tensor.rank(), options.tensor.size()});
      }
    }
  }

  bool skips_products() const { return skipped_.has_value(); }

 private:
  std::optional<nn::ScoresOfGpu> scores_;
  std::optional<SkippedProducts> skipped_;
  std::optional<nn::ShapesOnly> shapes_;
};

/// Runs a block the first time, which makes tensors that further runs reuse. Skips its matrix
/// products unless it is timed.
nn::Bundle run_first(BlockRun& run, const nn::Bundle& in, bool is_timed) {
  std::optional<SkippedProducts> skipped;
  if (!is_timed) skipped.emplace();
  return run.run(in);
}

/// Runs a block twice, or more often where that is fast, and takes the median time.
nn::Bundle run_some(BlockRun& run, const nn::Bundle& in, bool is_timed) {
  auto result = run_first(run, in, is_timed);
  const auto& first = run.alone_or(run.cost);
  const int runs = is_timed ? runs_for(first.forward_seconds + first.backward_seconds) : kRuns;
  std::vector<double> forward, backward;
  for (int i = 1; i < runs; ++i) {
    result = run.run(in);
    forward.push_back(run.cost.forward_seconds);
    backward.push_back(run.cost.backward_seconds);
  }
  run.cost.forward_seconds = median(forward);
  run.cost.backward_seconds = median(backward);
  return result;
}

}  // namespace

std::vector<BlockCost> profile(const nn::BlockList& blocks, const parallel::MicroBatch& batch,
                               const ProfileOptions& options) {
  std::vector<BlockCost> out;
  struct Known {
    BlockCost cost;
    nn::Bundle result;
    size_t block = 0;
  };
  std::map<std::string, Known> known;
  const auto shared = nn::read_by_several(blocks);
  nn::Bundle in = batch.inputs;
  const Setting setting(blocks, batch, options);
  for (size_t b = 0; b < blocks.size(); ++b) {
    auto& block = *blocks[b];
    const auto kind = cost_key(block, in, shared);
    auto found = known.find(kind);
    if (found == known.end()) {
      OtherBlocks others(blocks, block);
      const bool is_timed = options.is_timed && !setting.skips_products();
      BlockRun run(block, batch, options, static_cast<int64_t>(b), is_timed ? &others : nullptr);
      bind_params(block, options, batch.inputs, run.context());
      // A GPU adds in place. A stage that has a tied table for itself also fills its gradient with
      // zeros first, which no plan counts.
      if (options.gpu_rows == 0) run.set_written(read_behind(blocks, b));
      auto result = run_some(run, in, is_timed);
      if (options.again) options.again(b, b, [&] { BlockRun(run).run(in); });
      run.run_halves(in, shared);
      release_params(block);
      found = known.emplace(kind, Known{run.cost, std::move(result), b}).first;
    } else if (options.again) {
      options.again(b, found->second.block, {});
    }
    out.push_back(found->second.cost);
    in = found->second.result;
  }
  return out;
}

namespace {

/// Bytes of a bundle's tensors, each storage once, without the storages of `batch`.
int64_t bytes_beside(const nn::Bundle& in, const nn::Bundle& batch) {
  std::set<const void*> seen;
  for (const auto& [name, tensor] : batch) seen.insert(tensor.storage().data());
  int64_t bytes = 0;
  for (const auto& [name, tensor] : in) {
    if (seen.insert(tensor.storage().data()).second) {
      bytes += static_cast<int64_t>(tensor.storage().nbytes());
    }
  }
  return bytes;
}

}  // namespace

std::vector<int64_t> evaluation_bytes(const nn::BlockList& blocks,
                                      const parallel::MicroBatch& batch,
                                      const ProfileOptions& options) {
  struct Known {
    int64_t bytes;
    nn::Bundle result;
  };
  std::map<std::string, Known> known;
  const auto shared = nn::read_by_several(blocks);
  nn::Bundle in = batch.inputs;
  const Setting setting(blocks, batch, options);
  const at::NoGradGuard no_grad;
  std::vector<int64_t> out;
  for (size_t b = 0; b < blocks.size(); ++b) {
    auto& block = *blocks[b];
    const auto kind = cost_key(block, in, shared);
    auto found = known.find(kind);
    if (found == known.end()) {
      const BlockRun run(block, batch, options, static_cast<int64_t>(b), nullptr,
                         nn::Mode::Evaluate);
      bind_params(block, options, batch.inputs, run.context());
      Known one;
      for (int i = 0; i < kRuns; ++i) {
        tensor_memory.take_peak();
        const int64_t before = tensor_memory.held();
        one.result = block.forward(in, run.context());
        one.bytes = tensor_memory.take_peak() - before;
      }
      one.bytes += bytes_beside(in, batch.inputs);
      release_params(block);
      found = known.emplace(kind, std::move(one)).first;
    }
    out.push_back(found->second.bytes);
    in = found->second.result;
  }
  return out;
}

}  // namespace convoy::planner
