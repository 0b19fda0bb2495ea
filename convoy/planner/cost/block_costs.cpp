#include "convoy/planner/cost/block_costs.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <set>
#include <span>

#include "convoy/base/at_once.h"
#include "convoy/base/error.h"
#include "convoy/base/text.h"
#include "convoy/base/timing.h"
#include "convoy/comm/echo/echo_engine.h"
#include "convoy/nn/documents.h"
#include "convoy/parallel/knobs.h"
#include "convoy/planner/cost/pipeline_inputs.h"
#include "convoy/planner/cost/profile.h"

namespace convoy::planner {

namespace {

constexpr double BlockCost::* kSeconds[] = {
    &BlockCost::forward_seconds, &BlockCost::backward_seconds, &BlockCost::weight_seconds};
constexpr int64_t BlockCost::* kCounts[] = {&BlockCost::kept_bytes,
                                            &BlockCost::put_off_bytes,
                                            &BlockCost::returned_bytes,
                                            &BlockCost::forward_bytes,
                                            &BlockCost::backward_bytes,
                                            &BlockCost::half_bytes,
                                            &BlockCost::sent_bytes,
                                            &BlockCost::grad_bytes,
                                            &BlockCost::forward_sum_bytes,
                                            &BlockCost::backward_sum_bytes,
                                            &BlockCost::forward_message_bytes,
                                            &BlockCost::backward_message_bytes};

/// Returns the cost on the line through two measurements.
BlockCost between(const BlockCost& a, const BlockCost& b, double part) {
  BlockCost out = a;
  for (const auto field : kSeconds) {
    out.*field = std::max(0.0, a.*field + (b.*field - a.*field) * part);
  }
  for (const auto field : kCounts) {
    const auto step = static_cast<double>(b.*field - a.*field) * part;
    out.*field = std::max<int64_t>(0, a.*field + static_cast<int64_t>(step));
  }
  out.weight_seconds = std::min(out.weight_seconds, out.backward_seconds);
  return out;
}

bool take_as_much(const std::vector<BlockCost>& a, const std::vector<BlockCost>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const auto& x, const auto& y) {
    return std::all_of(std::begin(kCounts), std::end(kCounts),
                       [&](const auto field) { return x.*field == y.*field; });
  });
}

BlockShare with_rows(BlockShare share, int64_t rows) {
  share.rows = rows;
  return share;
}

/// Fields of BlockCost that are times and message sizes, not kept bytes.
constexpr int64_t BlockCost::* kSent[] = {
    &BlockCost::forward_sum_bytes, &BlockCost::backward_sum_bytes,
    &BlockCost::forward_message_bytes, &BlockCost::backward_message_bytes};

void take_times(std::vector<BlockCost>& of_longest, const std::vector<BlockCost>& of_mean) {
  for (size_t b = 0; b < of_longest.size(); ++b) {
    for (const auto field : kSeconds) of_longest[b].*field = of_mean[b].*field;
    for (const auto field : kSent) of_longest[b].*field = of_mean[b].*field;
  }
}

}  // namespace

UsualCosts profile_usual(const parallel::ModelFactory& factory, const UsualBatches& batches,
                         int64_t rows, const ProfileOptions& options) {
  UsualCosts out{profile(factory(), batches.longest(rows), options), {}};
  out.mean = batches.vary() ? profile(factory(), batches.mean(rows), options) : out.longest;
  take_times(out.longest, out.mean);
  return out;
}

std::vector<int64_t> sizes_to_run(int64_t most) {
  std::vector<int64_t> out;
  for (int64_t rows = 1; rows <= most; rows *= 2) out.push_back(rows);
  return out;
}

BlockCosts::BlockCosts(parallel::ModelFactory factory, options::TrainingArguments arguments,
                       const dataset::Dataset& data, MeasureOptions measure)
    : factory_(std::move(factory)),
      arguments_(std::move(arguments)),
      data_(&data),
      measure_(std::move(measure)) {}

void BlockCosts::measure_also(int64_t rows) {
  const auto at = std::lower_bound(measure_.sizes.begin(), measure_.sizes.end(), rows);
  if (at == measure_.sizes.end() || *at != rows) measure_.sizes.insert(at, rows);
}

bool BlockCosts::has_rows(int64_t rows) {
  if (!batches_ || !batches_->has(rows)) {
    batches_.emplace(arguments_, *data_, std::max(rows, measure_.sizes.back()));
  }
  return batches_->has(rows);
}

BlockCosts::BlockCosts(MeasuredBlocks measured, std::string file, double spread)
    : file_(std::move(file)), spread_(spread) {
  std::set<int64_t> sizes;
  for (const auto& [share, costs] : measured) {
    if (share.context == 1) sizes.insert(share.rows);
  }
  known_[0] = std::move(measured);
  measure_.sizes.assign(sizes.begin(), sizes.end());
}

std::vector<BlockCost> BlockCosts::of(const BlockShare& share) {
  const int64_t scores = scores_of(share);
  const std::span<const int64_t> sizes(measure_.sizes.data(), num_sizes(share, scores));
  const auto upper = std::lower_bound(sizes.begin(), sizes.end(), share.rows);
  if (upper != sizes.end() && *upper == share.rows) return measured(share, scores);
  if (sizes.size() == 1) return measured(with_rows(share, sizes.front()), scores);
  const auto high = upper == sizes.end()     ? sizes.end() - 1
                    : upper == sizes.begin() ? sizes.begin() + 1
                                             : upper;
  const int64_t low = *(high - 1);
  const auto& a = measured(with_rows(share, low), scores);
  const auto& b = measured(with_rows(share, *high), scores);
  const double part = static_cast<double>(share.rows - low) / static_cast<double>(*high - low);
  std::vector<BlockCost> out;
  for (size_t n = 0; n < a.size(); ++n) out.push_back(between(a[n], b[n], part));
  return out;
}

size_t BlockCosts::num_sizes(const BlockShare& share, int64_t scores) {
  const auto first =
      std::upper_bound(measure_.sizes.begin(), measure_.sizes.end(), measure_.always) -
      measure_.sizes.begin();
  auto out = std::max<size_t>(1, static_cast<size_t>(first));
  const auto of = [&](size_t size) { return with_rows(share, measure_.sizes[size]); };
  while (out < measure_.sizes.size() && measure_.sizes[out - 1] < share.rows &&
         may_run(of(out), of(out - 1), scores)) {
    ++out;
  }
  return out;
}

bool BlockCosts::may_run(const BlockShare& next, const BlockShare& last, int64_t scores) {
  if (known_[scores].contains(next) || !factory_) return known_[scores].contains(next);
  constexpr double kSoonDone = 0.25;  // seconds, of all blocks together
  double seconds = 0;
  for (const auto& block : measured(last, scores)) {
    seconds += block.forward_seconds + block.backward_seconds;
  }
  return seconds < kSoonDone && batches_->has(next.rows);
}

/// Number of rows of scores that a GPU keeps at once, up to a bound that depends on the model and
/// the share; 0 on the host.
int64_t BlockCosts::scores_of(const BlockShare& share) {
  constexpr int64_t kAllScores = int64_t{1} << 20;
  if (!measure_.for_gpu) return 0;
  const auto first = with_rows(share, measure_.sizes.front());
  const auto [from, fresh] = all_scores_from_.try_emplace(first, kAllScores);
  if (share.rows >= from->second) return kAllScores;
  if (!take_as_much(measured(first, share.rows), measured(first, kAllScores))) return share.rows;
  from->second = share.rows;
  return kAllScores;
}

const std::vector<BlockCost>& BlockCosts::measured(const BlockShare& share, int64_t scores) {
  auto& known = known_[scores];
  if (!known.contains(share) && !factory_) {
    fail<UsageError>("train", "{} has no costs of {} for {} tensor ranks{}{}", file_,
                     plural(share.rows, "row"), share.tensor,
                     share.sequence ? " that share out tokens" : "",
                     share.context > 1 ? fmt::format(" and {} context ranks", share.context) : "");
  }
  if (!known.contains(share)) run(share, scores);
  return known.at(share);
}

void BlockCosts::run(const BlockShare& share, int64_t scores) {
  has_rows(share.rows);
  auto options = profile_options(arguments_);
  options.tensor = comm::echo_group(share.tensor - 1, share.tensor);
  options.sequence_parallel = share.sequence;
  options.context = comm::echo_group(share.context - 1, share.context);
  options.gpu_rows = scores;
  options.is_timed = measure_.neighbours == 1;
  auto costs = profile_usual(factory_, *batches_, share.rows, options);
  if (measure_.neighbours > 1) time_beside_neighbours(costs, share.rows, options);
  known_[scores][share] = std::move(costs.longest);
}

namespace {

/// Run of all blocks on several threads at once.
struct Pass {
  std::vector<BlockCost> blocks;  ///< averages over the threads
  std::vector<double> totals;     ///< by thread, of all blocks: seconds
};

Pass profile_at_once(const parallel::ModelFactory& factory, const parallel::MicroBatch& batch,
                     int num_threads, ProfileOptions options, const std::vector<BlockCost>& alone) {
  Neighbours neighbours(num_threads, alone);
  options.neighbours = &neighbours;
  std::vector<std::vector<BlockCost>> busy(static_cast<size_t>(num_threads));
  const int threads_each = at::get_num_threads();
  at_once(num_threads, [&](int n) {
    // Leaves the group however this thread ends, so that the others do not wait for it.
    const std::shared_ptr<void> leaves(nullptr, [&](void*) { neighbours.leave(); });
    at::set_num_threads(threads_each);
    busy[static_cast<size_t>(n)] = profile(factory(), batch, options);
  });
  Pass out{alone, {}};
  for (size_t b = 0; b < alone.size(); ++b) {
    for (const auto field : kSeconds) {
      out.blocks[b].*field = 0;
      for (const auto& one : busy) out.blocks[b].*field += one[b].*field / num_threads;
    }
  }
  for (const auto& one : busy) {
    out.totals.push_back(0);
    for (const auto& block : one)
      out.totals.back() += block.forward_seconds + block.backward_seconds;
  }
  return out;
}

}  // namespace

/// Measures with busy neighbours, and repeats fast measurements, as a host's speed changes within a
/// second.
void BlockCosts::time_beside_neighbours(UsualCosts& costs, int64_t rows, ProfileOptions options) {
  constexpr double kEnough = 0.5;  // seconds
  constexpr size_t kMostPasses = 7;
  options.is_timed = true;
  const auto batch = batches_->mean(rows);
  const auto began = std::chrono::steady_clock::now();
  std::vector<Pass> passes;
  while (passes.empty() || (passes.size() < kMostPasses && seconds_since(began) < kEnough)) {
    passes.push_back(profile_at_once(factory_, batch, measure_.neighbours, options, costs.mean));
  }
  auto& mean = costs.mean;
  for (size_t b = 0; b < mean.size(); ++b) {
    for (const auto field : kSeconds) {
      std::vector<double> all;
      for (const auto& pass : passes) all.push_back(pass.blocks[b].*field);
      mean[b].*field = median(all);
    }
    mean[b].weight_seconds = std::min(mean[b].weight_seconds, mean[b].backward_seconds);
  }
  take_times(costs.longest, mean);
  std::vector<double> totals;
  for (const auto& pass : passes) {
    totals.insert(totals.end(), pass.totals.begin(), pass.totals.end());
  }
  const auto [least, most] = std::minmax_element(totals.begin(), totals.end());
  off_seconds_ += (*most - *least) / 2;
  median_seconds_ += median(totals);
}

int64_t most_context_ranks(const parallel::MicroBatch& batch) {
  if (nn::documents_of(batch.inputs).defined()) return 1;
  int64_t positions = 0;
  for (const auto& [name, tensor] : batch.inputs) {
    if (tensor.dim() > 1) positions = std::max(positions, tensor.size(1));
  }
  constexpr int64_t kMost = 16;  // of more a step is messages
  return std::clamp<int64_t>(positions / 2, 1, kMost);
}

void check_share(const parallel::ModelDecl& model, const parallel::Parallelism& asked,
                 const parallel::StepFacts& facts, const BlockShare& share) {
  if (share.tensor * share.context == 1) return;
  auto split = parallel::undecided(asked);
  split.ranks = {.context = share.context, .tensor = share.tensor};
  split.sequence_parallel = share.sequence;
  parallel::plan_run(model, split.mesh(), split, facts, {}, /*proves=*/false);
}

}  // namespace convoy::planner
