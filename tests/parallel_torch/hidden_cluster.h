#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "convoy/nn/declare.h"
#include "convoy/optim/optimizer.h"
#include "convoy/parallel/program/counts.h"
#include "convoy/planner/search/search.h"
#include "tests/parallel_torch/own_time.h"
#include "tests/parallel_torch/sleeping.h"

// A cluster and a model that nobody has seen before, drawn: what a planner is told of them, and
// blocks and an optimizer that take so long.
namespace convoy::parallel {

/// A block, on a device of speed 1.
struct HiddenBlock {
  double seconds = 0, seconds_of_row = 0;  ///< forward; a backward takes twice as long
  double weight_part = 0.5;                ///< of a backward
  int64_t elements = 0, width = 0;         ///< of its weight, of a row that it returns
  int64_t kept_of_row = 0, put_off_of_row = 0;

  double forward(int64_t rows, int tensor) const {
    return seconds + seconds_of_row * static_cast<double>(rows) / tensor;
  }
  Naps naps(int64_t rows, int tensor, double speed) const {
    const double takes = forward(rows, tensor) / speed;
    return {.forward = takes,
            .input = 2 * takes * (1 - weight_part),
            .weight = 2 * takes * weight_part,
            .until_input = (kept_of_row - put_off_of_row) * rows / tensor,
            .until_weight = put_off_of_row * rows / tensor};
  }
};

/// The sum over tensor ranks of what a block returns, and of its gradient.
class TensorSum : public torch::autograd::Function<TensorSum> {
 public:
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& x,
                            const comm::Group* group) {
    context->saved_data["group"] = reinterpret_cast<int64_t>(group);
    return sum(x, *group);
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 const torch::autograd::variable_list& grads) {
    return {sum(grads[0], *reinterpret_cast<comm::Group*>(context->saved_data["group"].toInt())),
            {}};
  }

 private:
  static at::Tensor sum(const at::Tensor& x, const comm::Group& group) {
    auto out = x.clone();
    group.all_reduce(out, comm::ReduceOp::Max, "sum of a block");
    return out;
  }
};

class HiddenSleeper : public nn::Block {
 public:
  HiddenSleeper(const std::string& name, const HiddenBlock& hidden, bool last, double speed,
                Kept& kept)
      : Block(name),
        hidden_(hidden),
        last_(last),
        speed_(speed),
        kept_(&kept),
        weight_(declare_matrix(name + ".weight", {hidden.elements, 1}, nn::Init::zeros(),
                               {.dim = 0})) {}

  bool takes_tensor_ranks() const override { return true; }

  nn::Bundle forward(const nn::Bundle& in, const nn::Context& context) override {
    auto x = in.at("x");
    if (!x.requires_grad()) x = x.detach().requires_grad_(true);
    tensor_ = context.tensor;
    const auto naps = hidden_.naps(x.size(0), tensor_.size(), speed_);
    auto y = Sleep::apply(x, hidden_.width, naps, weight_, kept_, &own_time::sleep_for);
    if (tensor_.size() > 1) y = TensorSum::apply(y, &tensor_);
    if (!last_) return {{"x", y}};
    return {{"loss", y.sum()}, {"count", at::ones({}, at::kLong)}};
  }

 private:
  HiddenBlock hidden_;
  bool last_;
  double speed_;
  Kept* kept_;
  nn::ParamPtr weight_;
  comm::Group tensor_;
};

/// Takes so long for each element, and changes nothing.
class HiddenUpdate : public optim::Optimizer {
 public:
  explicit HiddenUpdate(double seconds) : seconds_(seconds) {}
  std::string name() const override { return "sleep"; }
  std::vector<optim::StateSpec> states() const override { return {{"first"}, {"second"}}; }
  void update(const optim::FlatRange& stretch, const optim::StepNumbers&) const override {
    own_time::sleep_for(seconds_ * static_cast<double>(stretch.weights.numel()));
  }

 private:
  double seconds_;
};

/// What data parallelism (ddp) is among the splits of a cluster.
enum class DataParallel { Impossible, Beaten, Best };

struct HiddenCluster {
  planner::Cluster cluster;
  std::vector<HiddenBlock> model;
  double update_seconds = 0;  // of an element
  planner::SearchSpace space;

  double speed(int rank) const { return cluster.speed_of(rank, false); }

  /// "2 x 4 devices, 10 blocks, 16 rows".
  std::string to_text() const {
    return fmt::format("{} x {} devices, {} blocks, {} rows", cluster.num_hosts,
                       cluster.devices_per_host, model.size(), space.global_batch);
  }

  nn::BlockList blocks(int rank, Kept& kept) const {
    nn::BlockList out;
    for (size_t b = 0; b < model.size(); ++b) {
      out.push_back(std::make_shared<HiddenSleeper>("block" + std::to_string(b), model[b],
                                                    b + 1 == model.size(), speed(rank), kept));
    }
    return out;
  }

  std::vector<parallel::BlockCost> costs(int64_t rows, int tensor) const {
    std::vector<parallel::BlockCost> out;
    for (const auto& block : model) {
      const auto naps = block.naps(rows, tensor, 1);
      auto& cost = out.emplace_back();
      cost.forward_seconds = naps.forward;
      cost.backward_seconds = naps.input + naps.weight;
      cost.weight_seconds = naps.weight;
      cost.returned_bytes = cost.sent_bytes = cost.grad_bytes = cost.forward_sum_bytes =
          cost.backward_sum_bytes = 4 * rows * block.width;
      cost.kept_bytes = naps.until_input + naps.until_weight;
      cost.put_off_bytes = naps.until_weight;
      cost.forward_bytes = cost.kept_bytes + cost.returned_bytes;
      cost.backward_bytes = cost.half_bytes = cost.returned_bytes;
      cost.sent_parts = cost.grad_parts = 1;
      cost.forward_sums = cost.backward_sums = 1;
    }
    out.back().sent_bytes = out.back().grad_bytes = 0;
    return out;
  }

  planner::ModelCosts numbers() const {
    Kept kept;
    return {.model = nn::declare(blocks(0, kept)),
            .blocks = [*this](const planner::BlockShare& s) { return costs(s.rows, s.tensor); },
            .update_seconds = update_seconds};
  }
};

/// What stages are cut by: a row on a device of speed 1.
inline std::vector<parallel::BlockCounts> counts_of(const HiddenCluster& hidden) {
  return parallel::counts_of(hidden.costs(1, 1));
}

namespace hidden {

/// Draws numbers that are the same with every standard library.
class Draw {
 public:
  explicit Draw(uint64_t seed) : random_(seed) {}
  double even(double low, double high) {
    return low + (high - low) * static_cast<double>(random_() >> 11) * 0x1p-53;
  }
  /// As likely to lie within any factor.
  double log(double low, double high) { return std::exp(even(std::log(low), std::log(high))); }
  size_t one_of(size_t number) { return random_() % number; }

 private:
  std::mt19937_64 random_;
};

/// What a kind of cluster is drawn from: the slowest device, and how long the gradients' sum takes
/// of a backward.
struct Ranges {
  double slowest, least_sum, most_sum;
};

inline HiddenCluster draw_one(Draw& draw, const Ranges& ranges) {
  constexpr std::pair<int, int> kHosts[]{{1, 4}, {2, 2}, {1, 5}, {1, 6}, {2, 3},
                                         {3, 2}, {1, 7}, {1, 8}, {2, 4}, {4, 2}};
  HiddenCluster out;
  auto& cluster = out.cluster;
  std::tie(cluster.num_hosts, cluster.devices_per_host) = kHosts[draw.one_of(std::size(kHosts))];
  const int ranks = cluster.num_devices();
  cluster.device = {"drawn", int64_t{1} << 40, 1e12, 1e12, 1e12};
  for (int r = 0; r < ranks; ++r) {
    cluster.each.push_back(cluster.device);
    cluster.each.back().fp32_flops *= draw.even(ranges.slowest, 1);
  }
  const int64_t rows_of_rank = int64_t{1} << (1 + draw.one_of(2));
  out.space = {.num_ranks = ranks, .global_batch = ranks * rows_of_rank};
  if (cluster.num_hosts > 1) out.space.ranks_per_host = cluster.devices_per_host;
  const size_t blocks = static_cast<size_t>(ranks) + draw.one_of(9);
  // A step takes some tenths of a second.
  const double row =
      draw.log(0.2, 0.4) / (3 * static_cast<double>(blocks) * static_cast<double>(rows_of_rank));
  const double launch = draw.even(0, 0.3), message = draw.log(0.02, 0.3);
  double elements = 0, backward = 0;
  for (size_t b = 0; b < blocks; ++b) {
    auto& block = out.model.emplace_back();
    block.seconds_of_row = row * draw.even(0.6, 1.4);
    block.seconds = launch * block.seconds_of_row;
    block.weight_part = draw.even(0.35, 0.6);
    block.elements = static_cast<int64_t>(draw.log(1e4, 4e4));
    block.kept_of_row = static_cast<int64_t>(draw.log(2e4, 2e5));
    block.put_off_of_row = block.kept_of_row / 3;
    elements += static_cast<double>(block.elements);
    backward += 2 * block.forward(rows_of_rank, 1);
  }
  const double sum = draw.log(ranges.least_sum, ranges.most_sum) * backward;
  cluster.inside = {draw.log(1e-4, 1e-3), 2 * 4 * elements / sum};
  cluster.between = {draw.log(2e-4, 2e-3), draw.log(0.3, 1) * cluster.inside.bytes_per_second};
  for (auto& block : out.model) {
    block.width = 1 + static_cast<int64_t>(message * row * cluster.inside.bytes_per_second / 4 *
                                           draw.even(0.5, 1.5));
  }
  out.update_seconds = draw.log(0.01, 0.1) * backward / elements;
  auto& base = out.space.base;
  base.bucket_bytes = static_cast<int64_t>(4 * elements / draw.even(2, 8));
  out.space.facts.counts = counts_of(out);
  return out;
}

/// The least memory that a split of a family takes; of any where it is empty.
inline int64_t least_of(const planner::SearchResult& found, const std::string& family = "") {
  int64_t out = INT64_MAX;
  for (const auto& planned : found.tried) {
    if (!family.empty() && planned.split.family() != family) continue;
    out = std::min(out, planned.prediction.memory.sum());
  }
  return out;
}

/// Gives devices too little memory for ddp, each another; false: nothing fits then.
inline bool limit_memory(HiddenCluster& hidden, Draw& draw) {
  auto space = hidden.space;
  space.all = true;
  const auto found = planner::search(hidden.numbers(), hidden.cluster, space);
  const auto all = static_cast<double>(least_of(found)),
             ddp = static_cast<double>(least_of(found, "ddp"));
  constexpr double kNear = 1.1;
  if (all * kNear * kNear > ddp) return false;
  const double limit = draw.even(all * kNear, ddp / kNear);
  auto& devices = hidden.cluster.each;
  for (auto& device : devices) {
    device.memory_bytes = static_cast<int64_t>(limit * draw.even(1, 1.5));
  }
  devices[draw.one_of(devices.size())].memory_bytes = static_cast<int64_t>(limit);
  return true;
}

}  // namespace hidden

/// The fastest that fits of the families that are named, as predicted; null: none does.
inline const planner::Candidate* fastest_of(const planner::SearchResult& found,
                                            const std::set<std::string>& families) {
  for (const auto& planned : found.tried) {  // the fastest first
    if (planned.prediction.fit == planner::Fit::No) break;
    if (families.contains(planned.split.family())) return &planned;
  }
  return nullptr;
}

/// The same seed draws the same.
inline HiddenCluster draw_hidden_cluster(uint64_t seed, DataParallel is) {
  hidden::Draw draw(seed);
  constexpr double kClearly = 1.05, kAsGood = 1.01;
  while (true) {
    const bool best = is == DataParallel::Best;
    auto out = hidden::draw_one(
        draw, best ? hidden::Ranges{0.95, 0.02, 0.1} : hidden::Ranges{0.5, 0.1, 2});
    if (is == DataParallel::Impossible && !hidden::limit_memory(out, draw)) continue;
    const auto found = planner::search(out.numbers(), out.cluster, out.space);
    if (found.best() == nullptr) continue;
    const auto* ddp = fastest_of(found, {"ddp"});
    const double fastest = found.best()->prediction.seconds;
    if (is == DataParallel::Impossible && ddp == nullptr) return out;
    if (ddp == nullptr) continue;
    if (is == DataParallel::Beaten && ddp->prediction.seconds > kClearly * fastest) return out;
    if (best && ddp->prediction.seconds <= kAsGood * fastest) return out;
  }
}

}  // namespace convoy::parallel
