#include "convoy/planner/search/decision.h"

#include <fmt/format.h>

#include <algorithm>

#include "convoy/base/text.h"
#include "convoy/parallel/knobs.h"
#include "convoy/parallel/pipeline/pipeline.h"
#include "convoy/parallel/zero/state_bytes.h"
#include "convoy/planner/time/bounds.h"
#include "convoy/planner/time/uneven.h"

namespace convoy::planner {

namespace {

/// Bytes that training keeps of a block's parameters, of frozen ones their values.
struct BlockState {
  std::string name;
  double bytes = 0;
};

BlockState largest_block(const parallel::ModelDecl& model, const StepFacts& facts) {
  const double bytes_each = parallel::state_bytes_of_parameter(parallel::Mesh(), {}, facts);
  BlockState out;
  for (const auto& block : model.blocks) {
    const double bytes = state_of_block(model, block.params, {}, bytes_each, facts.low_precision);
    if (bytes > out.bytes) out = {block.name, bytes};
  }
  return out;
}

std::string room(const Cluster& cluster) {
  return human_bytes(cluster.room());
}

std::string of_one_device(const ModelCosts& numbers, const Cluster& cluster,
                          const SearchSpace& space) {
  auto alone = space.base;
  alone.micro_batches = space.global_batch;
  const auto one = predict(numbers, cluster, space.facts, alone);
  const int64_t state = one.memory.sum() - one.memory.activations;
  return fmt::format(
      "On one device, row by row, training takes {}: {} of state and {} of activations. That {}.",
      human_bytes(one.memory.sum()), human_bytes(state), human_bytes(one.memory.activations),
      one.fit == Fit::No ? fmt::format("is {} more than a device has room for ({})",
                                       human_bytes(one.short_bytes), room(cluster))
      : one.fit == Fit::AtRisk
          ? fmt::format("fits into the {} of a device, if only just", room(cluster))
          : fmt::format("fits into the {} of a device", room(cluster)));
}

std::string of_largest_block(const ModelCosts& numbers, const Cluster& cluster,
                             const SearchSpace& space) {
  const auto block = largest_block(numbers.model, space.facts);
  const auto bytes = static_cast<int64_t>(block.bytes);
  const bool fits = fit_of(numbers, cluster, bytes) != Fit::No;
  return fmt::format(
      "Its largest block, {}, has {} of state: {}.", block.name, human_bytes(bytes),
      fits ? "a stage of a pipeline can hold it"
           : "no stage of a pipeline can hold it; tensor parallelism or ZeRO 3 splits it");
}

double trained_elements(const parallel::ModelDecl& model) {
  double out = 0;
  for (const auto& param : model.params) {
    if (param.trained) out += static_cast<double>(parallel::num_elements(param.shape));
  }
  return out;
}

/// Spread of a step over data ranks alone.
Parallelism over_data_ranks(const SearchSpace& space) {
  auto out = space.base;
  out.ranks.shard = space.num_ranks;
  out.micro_batches = std::max<int64_t>(1, space.global_batch / space.num_ranks);
  return out;
}

std::string of_links(const ModelCosts& numbers, const Cluster& cluster, const SearchSpace& space) {
  const auto share = over_data_ranks(space);
  const GroupTimes group(cluster, share.mesh(), parallel::kRows);
  const double bytes = 4 * trained_elements(numbers.model);
  const double computing = least_computing(numbers, cluster, space.facts, share);
  const double sum = group.all_reduce(bytes);
  constexpr double kLittle = 0.2, kMuch = 1;
  return fmt::format(
      "An all-reduce of all gradients ({}) over {} takes {}, {:.0f} % of a step's compute time: "
      "the links {} are {} for this model.",
      human_bytes(bytes), plural(space.num_ranks, "rank"), step_text(sum), 100 * sum / computing,
      group.crosses_hosts() ? "between hosts" : "inside the host",
      sum < kLittle * computing ? "fast"
      : sum < kMuch * computing ? "neither fast nor slow"
                                : "slow");
}

/// Sentences about the devices' own memory, where the best plan needs offloading.
std::vector<std::string> of_offload(const SearchResult& found) {
  const auto* best = found.best();
  if (best == nullptr || !best->split.offload.any()) return {};
  const Candidate *fastest = nullptr, *smallest = nullptr;  // of those with all on the devices
  for (const auto& planned : found.tried) {
    if (planned.split.offload.any()) continue;
    if (fastest == nullptr && planned.prediction.fit != Fit::No) fastest = &planned;
    if (smallest == nullptr ||
        planned.prediction.memory.sum() < smallest->prediction.memory.sum()) {
      smallest = &planned;
    }
  }
  if (fastest != nullptr) {
    return {fmt::format("With all of the state on the devices a step takes {} ({}).",
                        step_text(fastest->prediction.seconds), fastest->split.to_text())};
  }
  if (smallest == nullptr) return {};
  return {
      fmt::format("With all of the state on the devices nothing fits: the smallest split ({}) is "
                  "{} short. With offload, {} of each rank's state are elsewhere.",
                  smallest->split.to_text(), human_bytes(smallest->prediction.short_bytes),
                  human_bytes(best->prediction.memory.offloaded))};
}

int num_expert_ranks(const Parallelism& split) {
  return split.mesh().degree(parallel::Axis::Expert);
}

/// Largest number of ranks among `most` that may be expert ranks.
int64_t most_expert_ranks(const SearchSpace& space, int64_t most) {
  int64_t out = std::min(most, space.num_experts);
  while (space.num_experts % out != 0 || space.num_ranks % out != 0) --out;
  return out;
}

/// Time that rows of a step are on their way to experts and back, with so many expert ranks.
double seconds_on_the_way(const ModelCosts& numbers, const Cluster& cluster,
                          const SearchSpace& space, int64_t experts) {
  auto share = over_data_ranks(space);
  share.set_expert_ranks(experts);
  const GroupTimes group(cluster, share.mesh(), parallel::Axis::Expert);
  double out = 0;  // of two collectives forward, and two backward
  for (const auto& block : numbers.blocks_of(share.mesh(), share)) {
    if (block.expert_bytes > 0) {
      out += 4 * group.all_to_all(static_cast<double>(block.expert_bytes));
    }
  }
  return out * static_cast<double>(share.micro_batches);
}

/// Sentences on the rows that expert ranks would send inside a host and between hosts, and on
/// whether the best plan has such ranks.
std::vector<std::string> of_experts(const ModelCosts& numbers, const Cluster& cluster,
                                    const SearchSpace& space, const SearchResult& found) {
  if (space.num_experts == 0 || space.num_ranks == 1) return {};
  const auto share = over_data_ranks(space);
  const double computing = least_computing(numbers, cluster, space.facts, share);
  const auto told = [&](int64_t experts, const char* where) {
    const double takes = seconds_on_the_way(numbers, cluster, space, experts);
    return fmt::format(
        "{} {} expert ranks, each with {} of a layer's {} experts, rows are on "
        "their way for {} of a step, {:.0f} % of its compute time",
        where, experts, space.num_experts / experts, space.num_experts, step_text(takes),
        100 * takes / computing);
  };
  const int64_t here = space.ranks_per_host == 0 ? space.num_ranks : space.ranks_per_host;
  const auto inside = most_expert_ranks(space, here);
  const auto all = most_expert_ranks(space, space.num_ranks);
  std::vector<std::string> out;
  if (inside > 1) out.push_back(told(inside, "Over") + ".");
  if (space.ranks_per_host > 0 && all > here) {
    out.push_back(told(all, "Between hosts, over") + ": so they are tried inside a host only.");
  }
  const auto* best = found.best();
  const auto with = std::find_if(found.tried.begin(), found.tried.end(), [](const auto& planned) {
    return num_expert_ranks(planned.split) > 1;
  });
  if (best == nullptr || with == found.tried.end()) return out;
  const auto without =
      std::find_if(found.tried.begin(), found.tried.end(),
                   [](const auto& planned) { return num_expert_ranks(planned.split) == 1; });
  const bool has = num_expert_ranks(best->split) > 1;
  const auto other = has ? without : with;
  if (other == found.tried.end()) return out;
  out.push_back(fmt::format(
      "{} expert ranks the best split ({}) takes {} a step and {} of memory, {} ({}) {} and {}: "
      "{}.",
      has ? "With" : "Without", best->split.to_text(), step_text(best->prediction.seconds),
      human_bytes(best->prediction.memory.sum()), has ? "without" : "with", other->split.to_text(),
      step_text(other->prediction.seconds), human_bytes(other->prediction.memory.sum()),
      verdict(*other, best)));
  return out;
}

/// Sentences on why stages 2 and 3 of ZeRO are not tried with the fastest pipeline: bytes that a
/// rank would send.
std::vector<std::string> of_sharded_stages(const ModelCosts& numbers, const SearchSpace& space,
                                           const SearchResult& found) {
  const auto with_stages =
      std::find_if(found.tried.begin(), found.tried.end(), [](const Candidate& planned) {
        const auto& split = planned.split;
        return split.ranks.pipeline > 1 && split.state_ranks() > 1 && split.micro_batches > 1;
      });
  if (with_stages == found.tried.end()) return {};
  const auto& split = with_stages->split;
  const double of_stage =
      trained_elements(numbers.model) / split.ranks.pipeline / split.ranks.tensor;
  const double gradients = parallel::kGradientBytes * of_stage;
  const auto width = parallel::weight_bytes(space.facts.low_precision);
  const double weights = static_cast<double>(width) * of_stage;
  const auto times = static_cast<double>(split.micro_batches);
  return {fmt::format(
      "Stages 2 and 3 of ZeRO are not tried with a pipeline. In a step of {} stages and {} "
      "micro-batches ZeRO 1 reduces {} of gradients and gathers {} of weights of a stage; ZeRO 2 "
      "would reduce {}, and ZeRO 3 also gather {}.",
      split.ranks.pipeline, split.micro_batches, human_bytes(gradients), human_bytes(weights),
      human_bytes(times * gradients), human_bytes(2 * times * weights))};
}

std::string outcome(const SearchResult& found) {
  if (const auto* best = found.best()) {
    return fmt::format("So: {}.", best->split.to_text());
  }
  const auto* smallest = found.smallest();
  if (smallest == nullptr) return "No split is possible for this model.";
  return fmt::format(
      "Nothing fits: the smallest split ({}) takes {} in stage {}, {} more than available. Use "
      "more or larger devices, or a smaller model or batch.",
      smallest->split.to_text(), human_bytes(smallest->prediction.memory.sum()),
      smallest->prediction.stage, human_bytes(smallest->prediction.short_bytes));
}

std::string longer(double times) {
  return times < 2 ? fmt::format("{:.0f} % longer", 100 * (times - 1))
                   : fmt::format("{:.3g} times as long", times);
}

double part(double of, double all) {
  return all > 0 ? 100 * of / all : 0;
}

}  // namespace

std::vector<std::string> decision(const ModelCosts& numbers, const Cluster& cluster,
                                  const SearchSpace& space, const SearchResult& found) {
  std::vector<std::string> out{of_one_device(numbers, cluster, space),
                               of_largest_block(numbers, cluster, space)};
  if (space.num_ranks > 1) out.push_back(of_links(numbers, cluster, space));
  for (auto& line : of_experts(numbers, cluster, space, found)) out.push_back(std::move(line));
  for (auto& line : of_offload(found)) out.push_back(std::move(line));
  for (auto& line : of_sharded_stages(numbers, space, found)) out.push_back(std::move(line));
  out.push_back(outcome(found));
  return out;
}

std::string shortage(const Prediction& prediction, int num_stages) {
  using parallel::Place;
  const auto place = prediction.short_of;
  return fmt::format("{} short{}", human_bytes(prediction.short_bytes),
                     place == Place::Cpu    ? " in the host's memory"
                     : place == Place::Disk ? " on the host's disk"
                     : num_stages > 1       ? fmt::format(" in stage {}", prediction.stage)
                                            : "");
}

std::string verdict(const Candidate& planned, const Candidate* best) {
  const auto& it = planned.prediction;
  if (it.fit == Fit::No) return shortage(it, planned.split.ranks.pipeline);
  if (best == nullptr || &planned == best) {
    return it.fit == Fit::AtRisk ? "fastest; fits, if only just" : "fastest";
  }
  const auto& other = best->prediction;
  if (it.seconds <= (1 + 1e-9) * other.seconds) return "as fast, but less simple";
  constexpr double kClose = 1.01;
  if (it.seconds < kClose * other.seconds) return "less than 1 % slower";
  struct Loss {
    double seconds;
    std::string text;
  };
  const Loss losses[] = {
      {it.bubble - other.bubble, fmt::format("a bubble of {:.0f} %", part(it.bubble, it.seconds))},
      {it.held_up - other.held_up,
       fmt::format("communication{} {:.0f} %", planned.split.offload.any() ? " and offload" : "",
                   part(it.held_up, it.seconds))},
      {it.updates - other.updates, fmt::format("updates {:.0f} %", part(it.updates, it.seconds))},
      {it.computing - other.computing,
       fmt::format(
           "computes {}{}", longer(it.computing / other.computing),
           planned.split.recompute && !best->split.recompute         ? " (recomputed forwards)"
           : planned.split.ranks.tensor > best->split.ranks.tensor   ? " (collectives in layers)"
           : planned.split.ranks.context > best->split.ranks.context ? " (messages in layers)"
           : num_expert_ranks(planned.split) > num_expert_ranks(best->split)
               ? " (rows on their way to experts)"
           : planned.split.ranks.pipeline > best->split.ranks.pipeline ? " (uneven stages)"
                                                                       : "")}};
  const auto* most =
      std::max_element(std::begin(losses), std::end(losses),
                       [](const auto& a, const auto& b) { return a.seconds < b.seconds; });
  return most->text;
}

std::string step_text(double seconds) {
  const auto& [scale, unit] = seconds < 1e-3 ? std::pair{1e6, "us"}
                              : seconds < 1  ? std::pair{1e3, "ms"}
                                             : std::pair{1.0, "s"};
  const double number = scale * seconds;
  const int decimals = number < 10 ? 2 : number < 100 ? 1 : 0;  // three digits
  return fmt::format("{:.{}f} {}", number, decimals, unit);
}

Json to_json(const Candidate& planned) {
  const auto& split = planned.split;
  const auto& it = planned.prediction;
  auto out = parallel::to_json(split);
  out.update({{"split", split.to_text()},
              {"family", split.family()},
              {"data_parallel_size", split.ranks.data()},
              {"gradient_accumulation_steps", split.micro_batches},
              {"seconds", it.seconds},
              {"computing_seconds", it.computing},
              {"bubble_seconds", it.bubble},
              {"communication_seconds", it.held_up},
              {"update_seconds", it.updates},
              {"memory_bytes", it.memory.sum()},
              {"activations_bytes", it.memory.activations},
              {"offloaded_bytes", it.memory.offloaded},
              {"stage", it.stage},
              {"fits", name_of(it.fit)},
              {"short_bytes", it.short_bytes}});
  return out;
}

}  // namespace convoy::planner
