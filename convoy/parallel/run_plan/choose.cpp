#include "convoy/parallel/run_plan/choose.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "convoy/base/error.h"
#include "convoy/base/text.h"
#include "convoy/parallel/pipeline/builders.h"
#include "convoy/parallel/pipeline/csv.h"
#include "convoy/parallel/pipeline/plan.h"
#include "convoy/parallel/recompute/fit.h"
#include "convoy/parallel/recompute/recompute.h"

namespace convoy::parallel {

namespace {

/// Fills in the bytes that blocks keep; where they are unknown, a block counts as keeping as much
/// as it computes.
Costs with_bytes(Costs costs) {
  if (costs.kept.empty()) costs.kept = costs.forward;
  return costs;
}

/// Number of virtual stages of a rank; with auto the largest.
int virtual_stages_of(const PipelineOptions& options) {
  return options.schedule->interleaved ? static_cast<int>(options.virtual_stages) : 1;
}

std::string with_virtual_stages(int number) {
  return number > 1 ? fmt::format(" with {} virtual stages each", number) : "";
}

/// Names of blocks; the first ones and the last of a long list.
std::string names_of(const std::vector<BlockDecl>& blocks) {
  constexpr size_t kMost = 12, kFirst = 3;
  std::vector<std::string> out;
  for (const auto& block : blocks) out.push_back(block.name);
  if (out.size() > kMost) {
    out.erase(out.begin() + kFirst, out.end() - 1);
    out.insert(out.end() - 1, "...");
  }
  return fmt::format("{}", fmt::join(out, ", "));
}

void check_number_of_blocks(const ModelDecl& model, int num_stages,
                            const PipelineOptions& options) {
  const bool searches = options.schedule == &kAutomatic;
  const int virtual_stages = searches ? 1 : virtual_stages_of(options);
  const auto num_blocks = static_cast<int64_t>(model.blocks.size());
  if (num_blocks >= static_cast<int64_t>(num_stages) * virtual_stages) return;
  const int64_t fit = num_blocks / num_stages;
  fail<UsageError>(
      "parallel", "a pipeline of {} stages{} needs as many blocks; got a model of {} ({}); try {}",
      num_stages, with_virtual_stages(virtual_stages), num_blocks, names_of(model.blocks),
      fit > 1   ? fmt::format("pipeline_virtual_stages = {}", fit)
      : fit > 0 ? "pipeline_schedule = 1f1b"
                : "a smaller pipeline_parallel_size");
}

/// Returns the cut that given splits make. Throws UsageError where they do not fit the stages.
Cut split_at(const std::vector<int64_t>& splits, int64_t num_blocks, int num_stages,
             int virtual_stages, Placement placement) {
  const int given = static_cast<int>(splits.size()) + 1;
  if (given != num_stages * virtual_stages) {
    fail<UsageError>("parallel",
                     "pipeline_splits = {} makes {} virtual stages; expected {} numbers for {} "
                     "stages{}",
                     fmt::join(splits, ","), given, num_stages * std::max(1, virtual_stages) - 1,
                     num_stages, with_virtual_stages(virtual_stages));
  }
  if (placement == Placement::V && given != 2 * num_stages) {
    fail<UsageError>("parallel",
                     "pipeline_placement = v gives each stage two virtual stages: pipeline_splits "
                     "needs {} numbers for {} stages; got {}",
                     2 * num_stages - 1, num_stages, fmt::join(splits, ","));
  }
  int64_t before = 0;
  for (const int64_t begin : splits) {
    if (begin <= before || begin >= num_blocks) {
      fail<UsageError>("parallel",
                       "pipeline_splits = {} must ascend between 1 and {}, the last block of the "
                       "model; got {}",
                       fmt::join(splits, ","), num_blocks - 1, begin);
    }
    before = begin;
  }
  return cut_at(splits, num_blocks, num_stages, placement);
}

class Choosing {
 public:
  explicit Choosing(const ChoiceInputs& inputs)
      : num_blocks_(static_cast<int64_t>(inputs.model.blocks.size())),
        num_stages_(inputs.num_stages()),
        parallelism_(inputs.parallelism),
        asked_(parallelism_.pipeline),
        again_(parallelism_.recompute || !inputs.facts.trains ? RecomputeOptions{}
                                                              : parallelism_.recomputed),
        memory_(inputs.facts.trains ? asked_.memory : 0),
        costs_(inputs.costs),
        recomputed_(inputs.recomputed),
        repeatable_(inputs.repeatable),
        known_(inputs.known) {}

  PipelineChoice run() const {
    check_bytes_are_known();
    if (!asked_.csv.empty()) return from_file();
    auto out = asked_.splits.empty() ? cut_by_cost() : cut_by_hand();
    if (again_.to_fit) return out;
    return checked(std::move(out));
  }

  PipelineChoice run_again(const PipelineChoice& without) const {
    return checked(ordered(without.cut));
  }

 private:
  PipelineChoice checked(PipelineChoice out) const {
    check_memory(out);
    if (searches()) out.found = schedule_named(pipe_of_choice(out), out.orders);
    return out;
  }

  bool searches() const { return asked_.schedule == &kAutomatic; }
  double memory() const { return static_cast<double>(memory_); }
  /// Whether cuts are joined, as buckets that are reduced after every micro-batch need it.
  bool joins() const { return parallelism_.reduces_each_shard(); }

  void check_bytes_are_known() const {
    if (memory_ == 0 || !costs_.kept.empty()) return;
    fail<UsageError>("parallel",
                     "pipeline_memory = {} is held against what blocks keep for backward, which is "
                     "not known of modules of your own, and not without data; try pipeline_costs = "
                     "FILE",
                     memory_);
  }

  PlanOptions plan_options() const { return {parallelism_, memory(), recomputed_, known_}; }

  PipelineChoice cut_by_cost() const {
    if (again_.to_fit) {
      auto fitted = plan_to_fit(costs_, plan_options(), repeatable_);
      return {std::move(fitted.plan.cut), std::move(fitted.plan.orders),
              std::move(fitted.recomputed), searches() ? fitted.schedule : ""};
    }
    if (again_.of_stage.empty()) {
      auto plan = plan_pipeline(costs_, plan_options());
      return {std::move(plan.cut), std::move(plan.orders), recomputed_};
    }
    // Recomputed blocks follow from the cut, so the memory limit is checked after it.
    auto options = plan_options();
    options.memory = 0;
    return ordered(plan_pipeline(costs_, options).cut);
  }

  PipelineChoice cut_by_hand() const {
    const auto& splits = asked_.splits;
    const int given = static_cast<int>(splits.size()) + 1;
    const int virtual_stages = searches() ? given / num_stages_ : virtual_stages_of(asked_);
    auto cut = split_at(splits, num_blocks_, num_stages_, virtual_stages,
                        asked_.placement.value_or(Placement::Loop));
    if (joins()) cut = joined(cut);
    if (!again_.to_fit) return ordered(std::move(cut));
    auto fitted = plan_to_fit(cut, costs_, plan_options(), repeatable_);
    return {std::move(fitted.plan.cut), std::move(fitted.plan.orders), std::move(fitted.recomputed),
            searches() ? fitted.schedule : ""};
  }

  PipelineChoice from_file() const {
    auto read = from_csv(asked_.csv, asked_.file, num_stages_, parallelism_.micro_batches);
    const auto virtual_stages = static_cast<int>(read.pipe.num_virtual_stages() / num_stages_);
    const auto placement = read.pipe.is_loop() ? Placement::Loop : Placement::V;
    if (num_blocks_ < read.pipe.num_virtual_stages()) {
      fail<UsageError>("parallel", "{} has {} virtual stages; got a model of {} blocks",
                       asked_.file, read.pipe.num_virtual_stages(), num_blocks_);
    }
    if (joins() && placement == Placement::V) {
      fail<UsageError>("parallel",
                       "{} is a v, whose last stage has two neighbouring virtual stages; zero = {} "
                       "would reduce between them; try zero_reduce = last, or zero = 1",
                       asked_.file, parallelism_.zero);
    }
    auto cut = asked_.splits.empty()
                   ? cut_blocks(total_costs(), num_stages_, virtual_stages, placement)
                   : split_at(asked_.splits, num_blocks_, num_stages_, virtual_stages, placement);
    PipelineChoice out{std::move(cut), std::move(read.orders), recomputed_};
    if (again_.to_fit) {
      out.recomputed = blocks_to_recompute(out.cut, out.orders, costs_, repeatable_, memory());
      return out;
    }
    recompute_some(out);
    check_memory(out);
    return out;
  }

  std::vector<double> total_costs() const {
    std::vector<double> out = costs_.backward;
    for (size_t b = 0; b < out.size(); ++b) {
      const bool again = recomputed_.contains(static_cast<int64_t>(b));
      out[b] += (again ? 2 : 1) * costs_.forward[b];
    }
    return out;
  }

  /// Recomputes the requested number of blocks of each stage.
  void recompute_some(PipelineChoice& choice) const {
    auto numbers = again_.of_stage;
    if (numbers.empty()) return;
    if (numbers.size() == 1) numbers.resize(static_cast<size_t>(num_stages_), numbers.front());
    choice.recomputed = blocks_to_recompute(choice.cut, numbers, with_bytes(costs_), repeatable_);
  }

  PipelineChoice ordered(Cut cut) const {
    PipelineChoice out{std::move(cut), {}, recomputed_};
    recompute_some(out);
    const auto pipe = pipe_of_choice(out);
    out.orders =
        known_ == nullptr ? asked_.schedule->orders(pipe) : known_->orders(asked_.schedule, pipe);
    return out;
  }

  Pipe pipe_of_choice(const PipelineChoice& choice) const {
    auto out = pipe_of(choice.cut, parallelism_.micro_batches, costs_, choice.recomputed);
    out.memory = memory();
    return out;
  }

  /// Returns the memory that each stage keeps: the simulated peak of a searched schedule, else as
  /// recompute_layers = auto counts it.
  std::vector<double> kept_by_stages(const PipelineChoice& choice) const {
    if (searches()) return play(pipe_of_choice(choice), choice.orders).peak;
    std::vector<double> out;
    const auto costs = with_bytes(costs_);
    for (size_t s = 0; s < choice.orders.size(); ++s) {
      out.push_back(
          most_kept(choice.cut, choice.orders[s], static_cast<int>(s), costs, choice.recomputed));
    }
    return out;
  }

  void check_memory(const PipelineChoice& choice) const {
    if (memory_ == 0) return;
    if (searches()) {
      const double least = smallest_memory(pipe_of_choice(choice));
      if (least > memory() * (1 + 1e-9)) fail_for_memory(memory(), least);
    }
    const auto peaks = kept_by_stages(choice);
    const auto most = std::max_element(peaks.begin(), peaks.end());
    if (*most <= memory() * (1 + 1e-9)) return;
    fail<UsageError>(
        "parallel",
        "{} keeps {:.0f} bytes ({}) for backward on stage {}; pipeline_memory = {} "
        "({}); try pipeline_memory = {:.0f}, pipeline_schedule = auto, or recompute_layers = auto",
        asked_.csv.empty() ? fmt::format("pipeline_schedule = {}", asked_.schedule->name)
                           : asked_.file,
        *most, human_bytes(*most), most - peaks.begin(), memory_, human_bytes(memory()),
        std::ceil(*most));
  }

  int64_t num_blocks_;
  int num_stages_;
  const Parallelism& parallelism_;
  const PipelineOptions& asked_;
  RecomputeOptions again_;
  int64_t memory_;
  const Costs& costs_;
  const std::set<int64_t>&recomputed_, &repeatable_;
  KnownPipes* known_;
};

}  // namespace

PipelineChoice choose_pipeline(const ChoiceInputs& inputs) {
  const auto& pipeline = inputs.parallelism.pipeline;
  if (pipeline.csv.empty()) check_number_of_blocks(inputs.model, inputs.num_stages(), pipeline);
  return Choosing(inputs).run();
}

PipelineChoice recompute_some_of(const PipelineChoice& without, const ChoiceInputs& inputs) {
  return Choosing(inputs).run_again(without);
}

std::set<int64_t> blocks_of_one_stage(const RecomputeOptions& options, const Costs& costs,
                                      const std::set<int64_t>& repeatable) {
  const Cut all{{0, static_cast<int64_t>(costs.forward.size()) - 1, 0}};
  return blocks_to_recompute(all, options.of_stage, with_bytes(costs), repeatable);
}

}  // namespace convoy::parallel
