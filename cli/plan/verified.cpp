#include "cli/plan/verified.h"

#include <algorithm>

#include "cli/plan/plan_settings.h"
#include "convoy/base/error.h"
#include "convoy/base/text.h"
#include "convoy/planner/search/decision.h"
#include "convoy/report/progress_output.h"
#include "convoy/report/table.h"

namespace convoy::cli {

namespace {

/// Candidates to train for a check: the fastest that fit, at first one of each family, and ddp and
/// the fastest stage of ZeRO, with which people would begin.
std::vector<const planner::Candidate*> to_verify(const planner::SearchResult& found,
                                                 int64_t number) {
  std::vector<const planner::Candidate*> fitting;
  const auto take = [&](const planner::Candidate* planned) {
    const bool is_there = std::find(fitting.begin(), fitting.end(), planned) != fitting.end();
    if (planned->prediction.fit != planner::Fit::No && !is_there) fitting.push_back(planned);
  };
  for (const auto* planned : found.of_families()) take(planned);
  for (const auto& planned : found.tried) take(&planned);
  std::vector<const planner::Candidate*> out(
      fitting.begin(), fitting.begin() + std::min<int64_t>(number, std::ssize(fitting)));
  const auto has = [&](const planner::Candidate* planned) {
    return std::find(out.begin(), out.end(), planned) != out.end();
  };
  for (const bool shards : {false, true}) {
    const auto is_simple = [&](const planner::Candidate* planned) {
      const auto& split = planned->split;
      return split.ranks.data() == split.num_ranks() && (split.zero > 0) == shards &&
             !split.offload.any();
    };
    const auto first = std::find_if(fitting.begin(), fitting.end(), is_simple);
    if (first != fitting.end() && !has(*first)) out.push_back(*first);
  }
  return out;
}

}  // namespace

void check_on_this_host(const planner::Cluster& cluster, const std::string& what,
                        const std::string& profile) {
  if (cluster.num_hosts == 1) return;
  fail<UsageError>("cli", "{} tries plans on this host, but {} is of {} hosts", what, profile,
                   cluster.num_hosts);
}

std::vector<Verified> verify(Configured& configured, const planner::SearchResult& found,
                             int64_t number) {
  const TrialFolder folder;
  std::vector<Verified> out;
  for (const auto* planned : to_verify(found, number)) {
    report::show_progress(fmt::format("trying {}\n", planned->split.to_text()), stderr);
    const auto file = folder.write(configured, planned->split);
    constexpr int64_t kSteps = 8;
    out.push_back({planned, bench::run_step(file, {}, planned->split.num_ranks(), kSteps)});
  }
  return out;
}

namespace {

/// Fastest of the trainings; null where all failed.
const Verified* fastest_of(const std::vector<Verified>& tried) {
  const Verified* out = nullptr;
  for (const auto& one : tried) {
    if (!one.measured.failure.empty()) continue;
    if (out == nullptr || one.measured.seconds < out->measured.seconds) out = &one;
  }
  return out;
}

}  // namespace

const planner::Candidate* chosen(const planner::SearchResult& found,
                                 const std::vector<Verified>& tried) {
  if (const auto* fastest = fastest_of(tried)) return fastest->planned;
  return tried.empty() ? found.best() : nullptr;  // what failed is no plan
}

std::string to_text(const std::vector<Verified>& tried) {
  report::Table table;
  table.column("", report::Align::kLeft).column("tried", report::Align::kLeft);
  table.column("predicted").column("off");
  table.column("measured", report::Align::kLeft);
  const auto* fastest = fastest_of(tried);
  for (const auto& one : tried) {
    const auto& [planned, measured] = one;
    const double predicted = planned->prediction.seconds;
    table.row({&one == fastest ? "*" : "", planned->split.to_text(), planner::step_text(predicted),
               measured.failure.empty() ? signed_percent(predicted / measured.seconds - 1) : "-",
               measured.failure.empty() ? planner::step_text(measured.seconds) : measured.failure});
  }
  auto out = table.to_text();
  if (fastest != nullptr) out += "\n* is the fastest that was measured: it is taken.\n";
  return out;
}

}  // namespace convoy::cli
