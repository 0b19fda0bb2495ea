#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <memory>
#include <set>

#include "cli/asked.h"
#include "cli/commands.h"
#include "cli/plan/plan_ranks.h"
#include "cli/plan/plan_settings.h"
#include "cli/plan/verified.h"
#include "cli/quoted.h"
#include "convoy/base/error.h"
#include "convoy/base/files.h"
#include "convoy/base/text.h"
#include "convoy/parallel/knobs.h"
#include "convoy/planner/cost/profile_file.h"
#include "convoy/planner/plan/planner.h"
#include "convoy/planner/search/decision.h"
#include "convoy/report/chart.h"
#include "convoy/report/progress_line.h"
#include "convoy/report/table.h"

namespace convoy::cli {

namespace {

struct PlanOptions {
  std::string config;
  std::string cluster, device, profile;  // one of them at most
  std::vector<int> ranks;
  planner::PlanRequest request;
  int64_t verify = 0;
  std::string output, plot;
  bool json = false, all = false;
};

/// First lines of a plan's file.
std::string origin_text(const planner::PlanReport& report, const std::vector<Verified>& tried) {
  auto text =
      fmt::format("Written by convoy plan. {}.\nTimes are {}.", report.what, report.how_known);
  if (!tried.empty()) text += "\n" + to_text(tried);
  std::string out;
  for (const auto& line : split(text, '\n')) out += line.empty() ? "" : "# " + line + "\n";
  return out + "\n";
}

/// Candidates to show: the fastest of each family and, behind them, at least one of each
/// combination of techniques.
std::vector<const planner::Candidate*> shown(const std::vector<const planner::Candidate*>& kinds,
                                             bool all) {
  constexpr size_t kFastest = 12;
  if (all) return kinds;
  std::vector<const planner::Candidate*> out;
  std::set<std::array<bool, 6>> seen;
  for (const auto* planned : kinds) {
    const auto& split = planned->split;
    const auto& ranks = split.ranks;
    const bool is_new = seen.insert({ranks.pipeline > 1, ranks.expert > 1, ranks.context > 1,
                                     ranks.tensor > 1, split.zero > 0, split.offload.any()})
                            .second;
    if (is_new || out.size() < kFastest) out.push_back(planned);
  }
  return out;
}

void print_table(const planner::PlanReport& report, bool all) {
  report::Table table;
  table.column("", report::Align::kLeft).column("step").column("memory").keys(3);
  table.column("split", report::Align::kLeft).column("", report::Align::kLeft);
  const auto* best = report.found.best();
  const auto kinds = report.found.of_families();
  const auto rows = shown(kinds, all);
  for (const auto* planned : rows) {
    const auto& it = planned->prediction;
    table.row({planned == best ? "*" : "", planner::step_text(it.seconds),
               human_bytes(it.memory.sum()), planned->split.to_text(),
               planner::verdict(*planned, best)});
  }
  fmt::print("\n{}", table.to_text());
  const auto more = kinds.size() - rows.size();
  const auto about = fmt::format(
      "For each kind of parallelism, the fastest split that fits; 8 x 4 rows are 8 micro-batches "
      "of 4. {}{} simulated, {} pruned by bounds. Times are {}, within {:.0f} %; "
      "memory is of the rank that needs most, within {:.0f} %.",
      more > 0 ? fmt::format("--all prints {} more. ", plural(more, "kind")) : "",
      plural(std::ssize(report.found.tried), "split") +
          (report.found.tried.size() == 1 ? " was" : " were"),
      report.found.num_bounded, report.how_known, 100 * report.numbers.time_spread,
      100 * report.numbers.memory_spread);
  fmt::print("\n{}\n", wrap(about, 0));
}

void print_json(const planner::PlanReport& report, const std::vector<Verified>& tried) {
  Json out{
      {"decision", planner::decision(report.numbers, report.cluster, report.space, report.found)},
      {"time_spread", report.numbers.time_spread},
      {"memory_spread", report.numbers.memory_spread},
      {"families", Json::array()},
      {"front", Json::array()},
      {"verified", Json::array()},
      {"refused", report.found.refused}};
  const auto* best = chosen(report.found, tried);
  out["best"] = best == nullptr ? Json() : planner::to_json(*best);
  for (const auto* planned : report.found.of_families()) {
    auto row = planner::to_json(*planned);
    row["verdict"] = planner::verdict(*planned, report.found.best());
    out["families"].push_back(std::move(row));
  }
  for (const auto* planned : report.found.front())
    out["front"].push_back(planner::to_json(*planned));
  for (const auto& [planned, measured] : tried) {
    out["verified"].push_back({{"split", planned->split.to_text()},
                               {"predicted_seconds", planned->prediction.seconds},
                               {"measured_seconds", measured.seconds},
                               {"measured_memory_bytes", measured.memory_bytes},
                               {"failure", measured.failure}});
  }
  fmt::print("{}\n", out.dump(2));
}

void draw_front(const std::string& file, const planner::PlanReport& report) {
  if (file.empty()) return;
  constexpr double kGiB = 1 << 30;
  report::LineChart chart;
  chart.title = "Time and memory of the splits that fit";
  chart.subtitle = report.what;
  chart.x_title = "memory of a rank, GiB";
  chart.y_title = "seconds a step";
  report::Series front{"none is as fast with as little", {}, {}};
  const auto found = report.found.front();
  for (auto planned = found.rbegin(); planned != found.rend(); ++planned) {
    front.x.push_back(static_cast<double>((*planned)->prediction.memory.sum()) / kGiB);
    front.y.push_back((*planned)->prediction.seconds);
  }
  chart.series.push_back(std::move(front));
  write_file(file, report::line_chart(chart));
}

/// Returns the command with which ranks train a run's file, on each host of the cluster.
std::string command_text(const std::string& file, int num_ranks, const planner::Cluster& cluster) {
  if (num_ranks == 1) return "convoy train " + file;
  const int each = cluster.devices_per_host;
  if (num_ranks <= each) return fmt::format("convoy train {} --nproc {}", file, num_ranks);
  const int last = num_ranks % each;
  return fmt::format(
      "convoy launch --nnodes {} --rdzv-endpoint HOST:29400 -n {} train {}{}",
      (num_ranks + each - 1) / each, each, file,
      last == 0 ? " (on each host)" : fmt::format(" (-n {} on the last host)", last));
}

/// Returns the place of the ranks, by what was typed; none: 0.
planner::Target where_of(const PlanOptions& options, int num_ranks) {
  const auto &cluster = options.cluster, &device = options.device, &profile = options.profile;
  if (!cluster.empty() && !device.empty()) {
    fail<UsageError>("cli", "--cluster and --on both say what the devices are; try one of them");
  }
  if (cluster.empty() && device.empty()) return planner::ThisHost{.profile = profile};
  if (!profile.empty()) {
    fail<UsageError>("cli",
                     "--profile {} was measured on a processor; it does not go with --cluster and "
                     "--on",
                     profile);
  }
  return planner::Devices{cluster.empty() ? planner::usual_cluster(device, std::max(1, num_ranks))
                                          : planner::read_cluster(cluster)};
}

/// Opens the run, without the options that the plan decides.
Asked ask(const PlanOptions& options, bool needs_data) {
  auto asked = ask_about(options.config, {.tells = !options.json, .needs_data = needs_data});
  auto& table = asked.configured->table;
  const auto typed = typed_for_plan(table);
  if (typed.empty()) return asked;
  std::vector<std::string> names;
  for (const auto& key : typed) names.push_back("--" + table.find(key)->name);
  table.reset(typed);
  if (options.json) return asked;
  tell({fmt::format("{} {} for the plan to decide, which takes no notice of {}", join(names),
                    names.size() == 1 ? "is" : "are", names.size() == 1 ? "it" : "them")});
  return asked;
}

/// Plans for each requested number of ranks. Returns 1 where nothing fits for some of them.
int plan_for_each(const PlanOptions& options) {
  if (!options.output.empty() || options.verify > 0) {
    fail<UsageError>("cli",
                     "{} takes one number of ranks; got --ranks {}; try one of these numbers",
                     options.verify > 0 ? "--verify" : "--output", fmt::join(options.ranks, ","));
  }
  if (options.all) {
    fail<UsageError>("cli",
                     "--all prints the kinds of splits of one number of ranks; got --ranks {}",
                     fmt::join(options.ranks, ","));
  }
  auto request = options.request;
  request.traced = std::make_shared<planner::TracedBlocks>();
  const auto [configured, run] = ask(options, /*needs_data=*/false);
  std::vector<PlanOfRanks> plans;
  for (const int ranks : options.ranks) {
    request.num_ranks = ranks;
    request.where = where_of(options, ranks);
    report::ProgressLine progress(fmt::format("planning for {}", plural(ranks, "rank")));
    const auto report = planner::make_plan(run.factory, configured->training, *run.train_data,
                                           request, progress.function());
    progress.wipe();
    if (!options.json) fmt::print("{}\n", report.what);
    plans.push_back(plan_of_ranks(report));
  }
  if (!options.json) fmt::print("\n");
  print_plans_of_ranks(plans, options.json);
  if (!options.plot.empty()) draw_plans_of_ranks(options.plot, plans);
  return std::all_of(plans.begin(), plans.end(), [](const auto& plan) { return plan.fits; }) ? 0
                                                                                             : 1;
}

int run_plan(PlanOptions options) {
  auto& request = options.request;
  if (options.verify > 0 && !(options.cluster.empty() && options.device.empty())) {
    fail<UsageError>("cli",
                     "--verify tries plans on this host; it does not go with --cluster and "
                     "--on");
  }
  check_place("--output", options.output, options.config, "plan.toml");
  check_place("--plot", options.plot, options.config, "plan.svg");
  const std::set<int> once(options.ranks.begin(), options.ranks.end());
  options.ranks.assign(once.begin(), once.end());
  if (options.ranks.size() > 1) return plan_for_each(options);
  if (!options.ranks.empty()) request.num_ranks = options.ranks.front();
  request.where = where_of(options, request.num_ranks);
  const auto [configured, run] = ask(options, /*needs_data=*/options.verify > 0);
  report::ProgressLine progress("planning");
  const auto report = planner::make_plan(run.factory, configured->training, *run.train_data,
                                         request, progress.function());
  progress.wipe();
  if (options.verify > 0) check_on_this_host(report.cluster, "--verify", options.profile);
  if (!options.json) {
    fmt::print("{}\n\n", report.what);
    for (const auto& line :
         planner::decision(report.numbers, report.cluster, report.space, report.found)) {
      fmt::print("{}\n", wrap("- " + line, 2));
    }
    print_table(report, options.all);
  }
  if (report.is_like_this_host) tell(planner::spread_warnings(report.costs->spread()));
  const auto tried = options.verify > 0 ? verify(*configured, report.found, options.verify)
                                        : std::vector<Verified>();
  if (options.json) {
    print_json(report, tried);
  } else {
    for (const auto& reason : report.found.refused) {
      fmt::print("{}\n", wrap("not possible: " + reason, 2));
    }
    if (!tried.empty()) fmt::print("\n{}", to_text(tried));
  }
  draw_front(options.plot, report);
  const auto* best = chosen(report.found, tried);
  if (best == nullptr) {
    if (!options.json) {
      fmt::print("\n{}\n", tried.empty() ? "No plan fits." : "All plans that were tried failed.");
    }
    return 1;
  }
  if (!options.output.empty()) {
    set_split(*configured, best->split);
    set_prediction(*configured, *best, report.is_like_this_host ? "" : report.cluster.device.name);
    write_file(options.output, origin_text(report, tried) + configured->table.to_toml());
    if (!options.json) {
      const auto* random = configured->table.find("data.random_tokens");
      fmt::print("\nwrote {0}; train it with: {1}{2}\n", options.output,
                 command_text(shell_word(options.output), best->split.num_ranks(), report.cluster),
                 random != nullptr && random->plain() != "0"
                     ? "\n(on random tokens; on text with --random_tokens 0 --data.train FILE)"
                     : "");
    }
  } else if (!options.json) {
    fmt::print("\nAs options of convoy train:\n  {}\n", wrap(join(to_flags(best->split), " "), 2));
  }
  return 0;
}

}  // namespace

void add_plan(CLI::App& app, RunCommand& run) {
  auto options = std::make_shared<PlanOptions>();
  auto& request = options->request;
  auto* command = app.add_subcommand(
      "plan", "Find the fastest parallelism for a training that fits the ranks' memory");
  add_config(*command, options->config);
  command
      ->add_option("--ranks", options->ranks,
                   "ranks of the job; several numbers, as 8,64,1024, give a table [those of the "
                   "cluster or the profile, else the processor's cores]")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->check(at_least(1));
  command
      ->add_option("--cluster", options->cluster,
                   "TOML file that describes hosts, devices and links")
      ->check(not_empty());
  command
      ->add_option("--on", options->device,
                   "a kind of device instead of a cluster, such as h100-80")
      ->check(not_empty());
  command
      ->add_option("--max_rows,--max-rows", request.most_rows,
                   "maximum rows per micro-batch [64 on this host, 1,024 on other devices]")
      ->check(at_least(1));
  command
      ->add_option("--profile", options->profile,
                   "costs measured by convoy profile, instead of measuring them")
      ->check(not_empty());
  command
      ->add_option("--verify", options->verify,
                   "train the N best plans, ddp and the best ZeRO for some steps on this host; the "
                   "fastest wins")
      ->check(at_least(0));
  command->add_option("--output", options->output, "write the run's TOML file with the plan")
      ->check(not_empty());
  command
      ->add_option("--plot", options->plot,
                   "plot time over memory, or over numbers of ranks, to this SVG file")
      ->check(not_empty());
  command->add_flag("--all", options->all, "print all kinds of splits, not only the fastest");
  command->add_flag("--json", options->json, "print JSON");
  command->footer(
      "Takes the options of convoy train. On this host each block of the model runs once for some "
      "micro-batch sizes; for other devices its matrix products are counted and combined with "
      "their data sheets. Every split is then planned like a training, and simulated.\n"
      "Examples:\n  convoy plan run.toml --ranks 2 --verify 3 --output plan.toml\n"
      "  convoy plan run.toml --ranks 2 --profile profile.json\n"
      "  convoy plan run.toml --ranks 64 --on h100-80 --global_batch_size 512\n"
      "  convoy plan run.toml --ranks 8,64,1024 --on h100-80 --global_batch_size 1024 --plot "
      "ranks.svg\n"
      "  convoy plan llama-folder --block_size 2048 --cluster cluster.toml --bf16\n");
  command->callback([options, &run] { run = [options] { return run_plan(*options); }; });
}

}  // namespace convoy::cli
