#include <fmt/format.h>

#include <algorithm>
#include <future>
#include <map>
#include <memory>
#include <optional>

#include "cli/asked.h"
#include "cli/commands.h"
#include "cli/verify/against_transformers.h"
#include "cli/verify/verdicts.h"
#include "cli/verify/verify_subject.h"
#include "cli/verify/verify_trainings.h"
#include "convoy/base/error.h"
#include "convoy/base/text.h"
#include "convoy/conformance/contract.h"
#include "convoy/launch/environment.h"
#include "convoy/machine/cores.h"
#include "convoy/report/progress_line.h"

namespace convoy::cli {

namespace {

struct VerifyOptions {
  std::string config;
  int num_ranks = 0;
  int64_t steps = 0;  ///< 0: a few
  bool whole = false, all_layouts = false, json = false;
  std::string against;  ///< another program's model to train on the same rows; "": none
  std::string python;   ///< that has it
};

void check(const VerifyOptions& options, const Configured& configured) {
  if (launch::detect_environment().launched()) {
    fail<UsageError>("cli", "convoy verify starts its own ranks; try it without a launcher");
  }
  if (!configured.task->windows().empty()) {
    fail<UsageError>("cli", "convoy verify compares one training; try it without --windows");
  }
  const auto& parallel = configured.training.parallel;
  if (parallel.strategy == "plan") {
    fail<UsageError>("cli",
                     "convoy verify compares a layout that is given; try convoy plan --output "
                     "planned.toml first, or --all-layouts with --strategy auto");
  }
  if (options.num_ranks > 1 && parallel.strategy == "single") {
    fail<UsageError>("cli", "--nproc {} has no effect with strategy = single; try --strategy auto",
                     options.num_ranks);
  }
  if (options.num_ranks > 0 && parallel.strategy == "dp") {
    fail<UsageError>("cli", "--nproc has no effect with --strategy dp; try --replicas");
  }
}

Verdict judge(std::string layout, const VerifyTrainings::Outcome& outcome,
              const conformance::TrainingRecord& reference, const conformance::LayoutFacts& facts) {
  Verdict out{.layout = std::move(layout), .contract = contract_of(facts)};
  if (outcome.refused) {
    out.refused = outcome.failure;
  } else if (!outcome.failure.empty()) {
    out.difference.same_bits = false;
    out.compared = false;
    if (outcome.by_machine) {
      out.failed = outcome.failure;
    } else {
      out.broken.push_back(outcome.failure);
    }
  } else {
    out.difference = conformance::difference(outcome.record, reference);
    out.broken = broken(out.contract, out.difference);
  }
  return out;
}

/// Step that every layout of so many ranks can divide and pipelines can overlap, of as many rows as
/// before where smaller micro-batches allow it.
parallel::Parallelism enough_for_all(parallel::Parallelism one_device, int64_t ranks) {
  const int64_t before = one_device.micro_batches, least = std::max(before, 2 * ranks);
  one_device.micro_batches = (least + ranks - 1) / ranks * ranks;
  const int64_t smaller = std::max<int64_t>(1, one_device.micro_batches / before);
  if (one_device.rows % smaller == 0) one_device.rows /= smaller;
  return one_device;
}

/// Layers that a model is cut to: two for each virtual stage of a layout.
int64_t layers_of(const parallel::Parallelism& split, int64_t virtual_stages) {
  constexpr int64_t kEach = 2;
  if (split.ranks.pipeline == 1) return kEach;
  const bool interleaves = split.pipeline.schedule->interleaved;
  return kEach * split.ranks.pipeline * (interleaves ? virtual_stages : 1);
}

/// Trainings of a run in layouts and on one device, with models cut alike.
class Verification {
 public:
  Verification(Configured& configured, const VerifySubject& subject, VerifyTrainings::Options trial,
               bool whole)
      : configured_(configured), subject_(subject), trial_(std::move(trial)), whole_(whole) {}

  Settings cut_of(const parallel::Parallelism& split) const {
    const int64_t each = configured_.training.parallel.parallelism.pipeline.virtual_stages;
    return whole_ ? Settings() : cut_layers(configured_.table, layers_of(split, each));
  }

  /// Trains in a layout, and on one device where no earlier layout cut the model alike. The verdict
  /// is made while others train, as it reads gigabytes.
  std::future<Verdict> verify(const parallel::Parallelism& one_device,
                              const conformance::TrainingLayout& layout, bool is_own) {
    auto trial = trial_;
    trial.cut = cut_of(layout.split);
    const VerifyTrainings trainings(configured_, trial);
    auto& reference = references_[trial.cut];
    if (!reference.trained) {
      reference.trained = trainings.one_device(one_device);
      if (!reference.trained->failure.empty()) {
        fail<UsageError>("cli", "the run does not train on one device, which is the reference: {}",
                         reference.trained->failure);
      }
    }
    auto outcome = is_own ? trainings.as_configured(subject_.in_threads ? 1 : subject_.num_ranks)
                          : trainings.in_layout(layout);
    auto facts = subject_.facts;
    facts.split = layout.split;
    return std::async(std::launch::async, [layout, outcome = std::move(outcome), facts,
                                           &reference = *reference.trained] {
      return judge(layout.to_text(), outcome, reference.record, facts);
    });
  }

  /// Judges a layout in bf16 that is beyond its tolerances beside one device in fp32.
  void allow_for_rounding(Verdict& verdict, const parallel::Parallelism& one_device,
                          const conformance::TrainingLayout& layout) {
    if (!configured_.training.bf16 || !may_be_rounding(verdict)) return;
    auto trial = trial_;
    trial.cut = cut_of(layout.split);
    auto& [trained, rounding] = references_[trial.cut];
    if (!rounding) {
      rounding = VerifyTrainings(configured_, trial).rounding_of_bf16(one_device, trained->record);
    }
    if (rounding) judge_beside(verdict, *rounding, *rounding);
  }

 private:
  /// Training on one device, and how far bf16 is from fp32 there where that was asked.
  struct Reference {
    std::optional<VerifyTrainings::Outcome> trained;
    std::optional<conformance::Difference> rounding;
  };

  Configured& configured_;
  const VerifySubject& subject_;
  VerifyTrainings::Options trial_;
  bool whole_;
  std::map<Settings, Reference> references_;  // by the cut
};

/// Trains the run's own layout, or all, and one device once for each size of the cut model.
std::vector<Verdict> verify_all(const VerifyOptions& options, const VerifySubject& subject,
                                Verification& verification) {
  report::ProgressLine progress("training");
  const auto show = progress.function();
  if (!options.all_layouts) {
    show(0, 1);
    const conformance::TrainingLayout own{subject.own, subject.in_threads};
    auto verdict = verification.verify(subject.one_device, own, true).get();
    verification.allow_for_rounding(verdict, subject.one_device, own);
    progress.wipe();
    // A refused layout of the run itself is a usage error: nothing was verified.
    if (!verdict.refused.empty()) throw UsageError(verdict.refused);
    return {std::move(verdict)};
  }
  const auto one_device = enough_for_all(subject.one_device, subject.num_ranks);
  const auto layouts = conformance::layouts_of({.num_ranks = subject.num_ranks,
                                                .one_device = one_device,
                                                .num_blocks = subject.num_blocks,
                                                .to_disk = true,
                                                .num_experts = subject.num_experts});
  std::vector<Verdict> out;
  std::future<Verdict> last;
  for (size_t i = 0; i <= layouts.size(); ++i) {
    std::future<Verdict> next;
    if (i < layouts.size()) {
      show(static_cast<int64_t>(i), std::ssize(layouts));
      next = verification.verify(one_device, layouts[i], false);
    }
    if (i > 0) {
      out.push_back(last.get());
      verification.allow_for_rounding(out.back(), one_device, layouts[i - 1]);
    }
    last = std::move(next);
  }
  progress.wipe();
  return out;
}

void tell_beginning(const VerifyOptions& options, const VerifySubject& subject,
                    const Settings& cut) {
  auto one = subject.one_device;
  if (options.all_layouts) one = enough_for_all(one, subject.num_ranks);
  std::string text =
      fmt::format("Compares {} with one device that accumulates {} x {}.",
                  plural(options.steps, "step"), one.micro_batches, plural(one.rows, "row"));
  if (!cut.empty() && options.all_layouts) {
    text += " The model is cut to two layers for each virtual stage; --whole takes all of it.";
  } else if (!cut.empty()) {
    text += " The model is cut:";
    for (const auto& [key, value] : cut) text += fmt::format(" --{} {}", key, value);
    text += "; --whole takes all of it.";
  }
  fmt::print("{}\n", wrap(text, 0));
}

int run_verify(VerifyOptions options) {
  if (options.steps == 0) options.steps = options.all_layouts ? 2 : 3;
  const auto asked = ask_about(options.config, {.tells = !options.json});
  auto& configured = *asked.configured;
  check(options, configured);
  const auto subject = subject_of(asked, options.num_ranks, options.against.empty() ? 2 : 1);
  const bool has_layouts = subject.num_ranks > 1 || options.all_layouts;
  if (!has_layouts && options.against.empty()) {
    fail<UsageError>("cli", "one rank is the reference itself; try --nproc 2");
  }
  const auto python = python_of(options.python);
  if (!options.against.empty()) check_against_transformers(configured, asked.run, python);
  const auto& parallel = configured.training.parallel;
  VerifyTrainings::Options trial{.steps = options.steps};
  trial.threads =
      parallel.threads > 0 ? parallel.threads : machine::cores_per_rank(subject.num_ranks);
  Verification verification(configured, subject, trial, options.whole);
  if (!options.json) tell_beginning(options, subject, verification.cut_of(subject.own));
  std::vector<Verdict> verdicts;
  if (has_layouts) {
    verdicts = verify_all(options, subject, verification);
  }
  if (!options.against.empty()) {
    trial.cut = verification.cut_of({});
    const auto still = without_dropout(configured.table);
    trial.cut.insert(trial.cut.end(), still.begin(), still.end());
    verdicts.push_back(
        verify_against_transformers({options.config, python, trial, subject.one_device}));
  }
  if (options.json) {
    fmt::print("{}\n", to_json(verdicts).dump(2));
  } else {
    print_verdicts(verdicts);
  }
  const bool any_broken = std::any_of(verdicts.begin(), verdicts.end(), [](const auto& it) {
    return !it.broken.empty() || !it.failed.empty();
  });
  const bool any_holds =
      std::any_of(verdicts.begin(), verdicts.end(), [](const auto& it) { return it.holds(); });
  return any_broken || !any_holds ? 1 : 0;
}

}  // namespace

void add_verify(CLI::App& app, RunCommand& run) {
  auto options = std::make_shared<VerifyOptions>();
  auto* command = app.add_subcommand(
      "verify", "Compare a run's layout with one device: losses, gradients, weights");
  command->add_option("config", options->config, "TOML file of the run")->required();
  command->add_option("--nproc", options->num_ranks, "ranks, on this host [those the layout needs]")
      ->check(at_least(1));
  command->add_option("--steps", options->steps, "steps to train [3; of all layouts 2]")
      ->check(at_least(1));
  command->add_flag("--whole", options->whole, "train all layers; else two for each virtual stage");
  command->add_flag("--all-layouts,--all_layouts", options->all_layouts,
                    "every layout that these ranks allow, instead of the run's own");
  command
      ->add_option("--against", options->against,
                   "also train another program's model on the same rows: transformers")
      ->check(CLI::IsMember({"transformers"}));
  command->add_option("--python", options->python,
                      "Python that has transformers [CONVOY_PYTHON, else python3]");
  command->add_flag("--json", options->json, "print JSON");
  command->footer(
      "Trains some steps of the run on one device that accumulates its micro-batches, and in its "
      "layout, with the options of convoy train, and compares every loss, gradient norm, optimizer "
      "state and weight. Ranks that hold the same state compare it after each step. "
      "docs/training.md "
      "says which layouts promise the same bits and which agree to rounding: the exit code is 1 "
      "where a promise is broken.\n"
      "Examples:\n"
      "  convoy verify run.toml --nproc 2\n"
      "  convoy verify run.toml --nproc 4 --zero 3 --tensor_parallel_size 2 --steps 5\n"
      "  convoy verify run.toml --nproc 2 --all-layouts\n"
      "  convoy verify run.toml --against transformers --python venv/bin/python\n");
  command->callback([options, &run] { run = [options] { return run_verify(*options); }; });
}

}  // namespace convoy::cli
