#include "convoy/train/logging/console.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>
#include <set>

#include "convoy/base/text.h"
#include "convoy/job/job.h"
#include "convoy/job/placement.h"
#include "convoy/launch/error_file.h"
#include "convoy/planner/search/decision.h"
#include "convoy/report/live_line.h"
#include "convoy/report/progress_output.h"
#include "convoy/train/memory_use.h"
#include "convoy/train/scorer.h"

namespace convoy::train {

namespace {

/// Number of metrics in a line beside the loss: the first ones.
constexpr size_t kShownMetrics = 2;

template <class... Args>
void print(fmt::format_string<Args...> format, Args&&... args) {
  report::show_progress(printable_lines(fmt::format(format, std::forward<Args>(args)...)));
}

template <class... Args>
void item(const char* label, fmt::format_string<Args...> format, Args&&... args) {
  const auto text = fmt::format(format, std::forward<Args>(args)...);
  print("{}\n", wrap(fmt::format("  {:<15}{}", label, text), 17));
}

std::string share_text(const std::vector<data::RankShare>& shares) {
  std::vector<std::string> parts;
  for (const auto& share : shares) {
    if (parts.size() == 8) {
      parts.push_back(fmt::format("... {} more ranks", shares.size() - 8));
      break;
    }
    parts.push_back(fmt::format("rank {}: {} rows, {} batches", parts.size(),
                                human_count(share.rows), human_count(share.batches)));
  }
  return join(parts, "; ");
}

/// Sentence about the memory of training on each rank, beside activations.
std::string memory_text(const parallel::MemoryUse& use, int64_t most_gathered, int64_t zero) {
  auto text = fmt::format("{} per rank: parameters {}, gradients {}, optimizer {}",
                          human_bytes(use.parameters + use.gradients + use.optimizer),
                          human_bytes(use.parameters), human_bytes(use.gradients),
                          human_bytes(use.optimizer));
  if (most_gathered > 0) text += fmt::format("; up to {} gathered", human_bytes(most_gathered));
  if (use.offloaded > 0) text += fmt::format("; {} offloaded", human_bytes(use.offloaded));
  return zero == 0 ? text : fmt::format("{} (zero = {})", text, zero);
}

/// Returns the text of bytes by stage of a pipeline.
std::string stages_text(const std::vector<int64_t>& bytes) {
  constexpr size_t kMost = 16;
  std::vector<std::string> parts;
  for (const int64_t each : bytes) {
    if (parts.size() == kMost) {
      parts.push_back(fmt::format("... {} more stages", bytes.size() - kMost));
      break;
    }
    parts.push_back(human_bytes(each));
  }
  return join(parts, " | ");
}

/// Bytes counted for each stage.
std::vector<int64_t> bytes_of_stages(const Metrics& metrics) {
  std::vector<int64_t> out;
  for (auto at = metrics.end();; out.push_back(static_cast<int64_t>(at->second))) {
    at = metrics.find(fmt::format("memory_bytes_of_stage_{}", out.size()));
    if (at == metrics.end()) return out;
  }
}

/// Text of the bytes of each kind of memory in use.
std::string memory_kinds(const Metrics& metrics) {
  std::vector<std::string> parts;
  for (const auto& [kind, unused] : kinds_of({})) {
    const auto bytes = metrics.find("memory_" + kind + "_bytes_per_rank");
    if (bytes == metrics.end() || bytes->second <= 0) continue;
    parts.push_back(fmt::format("{} {}", kind, human_bytes(bytes->second)));
  }
  return join(parts, ", ");
}

std::string plan_text(const options::PlannedStep& planned) {
  return fmt::format("{}; predicted: {} per step, {} per rank{}", planned.split,
                     planner::step_text(planned.seconds), human_bytes(planned.memory_bytes),
                     planned.kept ? "; kept from the checkpoint" : "");
}

/// Returns how far off a prediction was.
std::string off(double predicted, double measured) {
  return measured > 0 ? signed_percent(predicted / measured - 1) : "-";
}

/// Prediction and measurement of a run that was planned; "" for another.
std::string plan_outcome(const Metrics& metrics) {
  if (metrics.find("planned_step_seconds") == metrics.end()) return "";
  const double predicted = metrics.at("planned_step_seconds"),
               measured = metrics.at("train_step_seconds"),
               bytes = metrics.at("planned_memory_bytes_per_rank"),
               held = metrics.at("memory_bytes_per_rank");
  const auto step =
      measured > 0
          ? fmt::format("step time predicted {}, measured {} ({})", planner::step_text(predicted),
                        planner::step_text(measured), off(predicted, measured))
          : "too few steps to time";
  return fmt::format("plan: {}; peak memory predicted {}, measured {} ({})", step,
                     human_bytes(bytes), human_bytes(held), off(bytes, held));
}

/// Losses of a run: the mean over the steps of its last log line, and over all steps.
std::string losses_of(const Metrics& metrics) {
  const auto last = metrics.find("train_final_loss"), mean = metrics.find("train_loss");
  if (last == metrics.end()) return "no step";
  auto text = fmt::format("last loss {:.4f}", last->second);
  if (mean != metrics.end()) text += fmt::format(" (mean of the run {:.4f})", mean->second);
  return text;
}

class Console : public Callback {
 public:
  explicit Console(bool quiet) : quiet_(quiet) {}

  void on_train_begin(const RunInfo& info) override {
    const auto& job = *info.job;
    const auto& arguments = *info.arguments;
    max_steps_ = info.max_steps;
    last_step_ = info.last_step;
    if (quiet_) return;
    for (const auto& warning : info.warnings) print("{}\n", wrap("warning: " + warning, 9));
    print("training\n");
    item("strategy", "{} ({})", job.strategy, job.reason);
    item("ranks", "{} x {} {}, {} on {}", job.num_devices(), job.threads,
         job.threads == 1 ? "thread" : "threads", job.devices[0].str(), launch::host_name());
    for (const auto& line : split(job::placements_table(info.placements), '\n')) {
      if (!line.empty()) print("    {}\n", line);
    }
    if (job.planned) item("plan", "{}", plan_text(*job.planned));
    if (!info.pipeline.empty()) item("pipeline", "{}", info.pipeline);
    if (job.groups.mesh.num_ranks() > 1) {
      item("mesh", "{}{}", job.groups.mesh.to_text(),
           arguments.parallel.parallelism.sequence_parallel ? ", sequence parallel" : "");
    }
    if (job.world().size() > 1) item("collectives", "{}", job.world().engine());
    if (!job.faster.empty()) item("hint", "{}", job.faster);
    item("examples", "{}", human_count(info.num_examples));
    if (!info.shares.empty() && job.world().size() > 1)
      item("shares", "{}", share_text(info.shares));
    item("parameters", "{} ({} trainable)", human_count(info.num_parameters),
         human_count(info.num_trainable_parameters));
    item("memory", "{}",
         memory_text(info.memory, info.most_gathered, arguments.parallel.parallelism.zero));
    if (info.stage_bytes.size() > 1) item("by stage", "{}", stages_text(info.stage_bytes));
    item("batch", "{} per device x {} {} x {} accumulation = {} in total{}", info.per_device_batch,
         job.num_ranks(), job.num_ranks() == 1 ? "device" : "devices",
         arguments.gradient_accumulation_steps, info.total_batch,
         info.num_examples < info.total_batch ? ", more than there are examples" : "");
    if (job.num_ranks() > 1) {
      item("note",
           "the total batch counts all devices: the learning rate may need tuning and "
           "metrics may change");
    }
    item("steps", "{} ({} per epoch)", human_count(info.max_steps),
         human_count(info.steps_per_epoch));
    item("precision", "{}",
         arguments.bf16   ? "bf16 with fp32 master weights"
         : arguments.fp16 ? "fp16 with fp32 master weights and a loss scale"
         : arguments.tf32 ? "fp32, matrix products in TF32"
                          : "fp32");
    item("output", "{}",
         arguments.output.dir.empty() ? "nothing is saved; try --output_dir DIR"
                                      : arguments.output.dir);
    if (!info.memory_copies.empty()) item("copies", "{}", info.memory_copies);
    if (!info.resumed_from.empty()) {
      item("resumed", "from {} at step {}", info.resumed_from, info.first_step);
      if (info.last_save > 0) item("last save", "took {}", human_seconds(info.last_save));
    }
  }

  void on_step(const StepTiming& step) override {
    if (quiet_) return;
    // Weights fall by a tenth a step, so that the pace is that of the last dozens.
    recent_steps_ = 0.9 * recent_steps_ + 1;
    recent_samples_ = 0.9 * recent_samples_ + static_cast<double>(step.samples);
    recent_seconds_ = 0.9 * recent_seconds_ + step.seconds;
    if (!line_.due()) return;
    const auto left = static_cast<double>(last_step_ - step.step) * recent_seconds_ / recent_steps_;
    line_.show(fmt::format("step {}/{}  loss {:.4f}  {} samples/s  left {}", step.step, max_steps_,
                           step.loss, human_rate(recent_samples_ / std::max(1e-9, recent_seconds_)),
                           human_seconds(left)));
  }

  void on_evaluate_step(int64_t done, int64_t samples) override {
    if (done == samples) line_.wipe();
    if (quiet_ || done == samples || !line_.due()) return;
    line_.show(fmt::format("evaluating  {:.0f} %",
                           100 * static_cast<double>(done) / static_cast<double>(samples)));
  }

  void on_log(const LogRecord& r) override {
    if (quiet_) return;
    auto width = std::to_string(r.max_steps).size();
    auto text = fmt::format(
        "step {:>{}}/{}  epoch {:5.2f}  loss {:7.4f}  grad {:6.3f}  lr {:.2e}  {:>6} samples/s",
        r.step, width, r.max_steps, r.epoch, r.loss, r.grad_norm, r.learning_rate,
        human_rate(r.samples_per_second));
    if (std::isfinite(r.peak_percent)) {
      text += fmt::format("  peak {:.0f}%  floor {:.2f}x", r.peak_percent, r.floor_times);
    }
    for (size_t i = 0; i < std::min(kShownMetrics, r.metrics.size()); ++i) {
      text += fmt::format("  {} {:.4f}", r.metrics[i].first, r.metrics[i].second);
    }
    text += fmt::format("  mem {}", human_bytes(r.memory.sum()));
    if (r.device_memory_bytes > 0) {
      text += fmt::format("  gpu {}", human_bytes(r.device_memory_bytes));
    }
    if (r.data_wait_percent >= 1) text += fmt::format("  data {:.0f}%", r.data_wait_percent);
    if (r.comm_wait_percent >= 0.05) text += fmt::format("  comm {:.1f}%", r.comm_wait_percent);
    if (r.loss_scale > 0) text += fmt::format("  scale {:g}", r.loss_scale);
    if (r.skipped_steps > 0) text += fmt::format("  skipped {}", r.skipped_steps);
    if (r.step < r.max_steps) text += fmt::format("  left {}", human_seconds(r.seconds_left));
    tell(text, 5);
  }

  void on_evaluate(const Metrics& metrics, int64_t step) override {
    if (quiet_) return;
    tell(fmt::format("evaluated after step {}: {}", step, metrics_text(metrics)), 2);
  }

  void on_save(const std::filesystem::path& path) override {
    if (!quiet_) tell(fmt::format("saved {}", path.string()), 2);
  }

  void on_message(const std::string& text) override {
    if (!quiet_) {
      tell(text, text.starts_with("warning: ") ? 9 : 2);
    } else if (text.starts_with("warning: ")) {
      report::show_progress(printable_lines(text) + "\n", stderr);
    }
  }

  void on_train_end(const Metrics& metrics) override {
    if (quiet_) return;
    auto text = fmt::format("trained in {}: {} samples/s, {}, peak memory {}",
                            human_seconds(metrics.at("train_runtime")),
                            human_rate(metrics.at("train_samples_per_second")), losses_of(metrics),
                            human_bytes(metrics.at("peak_memory_bytes_per_rank")));
    if (auto gpu = metrics.find("peak_device_memory_bytes_per_rank"); gpu != metrics.end()) {
      text += fmt::format(", on a GPU {}", human_bytes(gpu->second));
    }
    const double waited = metrics.at("train_comm_wait_percent");
    if (waited >= 0.05) {
      text += fmt::format(", waited for other ranks {:.1f} % of the time", waited);
    }
    if (auto waits = metrics.find("train_offload_wait_seconds"); waits != metrics.end()) {
      text += fmt::format(", for offloaded state {:.1f} %",
                          100 * waits->second / std::max(1e-9, metrics.at("train_runtime")));
    }
    tell(text, 2);
    if (const auto plan = plan_outcome(metrics); !plan.empty()) tell(plan, 2);
    if (const auto kinds = memory_kinds(metrics); !kinds.empty()) {
      tell("peak memory per rank: " + kinds, 2);
    }
    if (const auto stages = bytes_of_stages(metrics); !stages.empty()) {
      tell("peak memory by stage: " + stages_text(stages), 2);
    }
  }

 private:
  void tell(const std::string& text, size_t indent) {
    line_.wipe();
    print("{}\n", wrap(text, indent));
  }

  bool quiet_;
  report::LiveLine line_{stdout};
  int64_t max_steps_ = 0, last_step_ = 0;
  double recent_steps_ = 0, recent_samples_ = 0, recent_seconds_ = 0;
};

}  // namespace

std::string metrics_text(const Metrics& metrics) {
  static const std::set<std::string> kTold{"eval_loss", "eval_runtime", "eval_samples",
                                           "eval_samples_per_second", "eval_steps_per_second"};
  std::vector<std::string> parts;
  const auto show = [&](const std::string& name, double value) {
    if (!std::isnan(value)) parts.push_back(fmt::format("{} {:.4f}", name, value));
  };
  if (metrics.count("eval_loss")) show("loss", metrics.at("eval_loss"));
  const bool any_error = std::any_of(metrics.begin(), metrics.end(), [](const auto& metric) {
    return metric.first.ends_with(kStandardError);
  });
  std::set<int64_t> cutoffs;
  std::map<std::pair<std::string, int64_t>, double> others;  // by kind and cut-off
  for (const auto& [key, value] : metrics) {
    if (key.rfind("eval_", 0) != 0 || key.starts_with("eval_/") || kTold.contains(key) ||
        !judges_models(key)) {
      continue;
    }
    const auto at = key.find("_at_");
    int64_t cutoff = 0;
    if (at != std::string::npos) parse_number(key.substr(at + 4), cutoff);
    // A metric without an error, where others have one, is another name of one of them.
    if (cutoff > 0 && any_error && !metrics.contains(key + kStandardError)) continue;
    if (cutoff > 0) cutoffs.insert(cutoff);
    others[{key.substr(5, at == std::string::npos ? at : at - 5), cutoff}] = value;
  }
  // Shows one cut-off, 10 where there is one; the table has all.
  const int64_t shown = cutoffs.contains(10) ? 10 : cutoffs.empty() ? 0 : *cutoffs.begin();
  for (const auto& [name, value] : others) {
    const auto& [kind, cutoff] = name;
    if (cutoff > 0 && cutoff != shown) continue;
    show(cutoff > 0 ? fmt::format("{}@{}", kind, cutoff) : kind, value);
  }
  const auto tell_setting = [&](const char* name, const char* yes, const char* no) {
    const auto found = metrics.find(std::string("eval_") + name);
    if (found != metrics.end()) parts.push_back(found->second != 0 ? yes : no);
  };
  tell_setting(kExcludeSeen, "ranked among unseen items", "ranked among all items");
  tell_setting(kTargetTime, "at the target's time", "at the last event's time");
  return join(parts, "  ");
}

std::shared_ptr<Callback> make_console(bool quiet) {
  return std::make_shared<Console>(quiet);
}

}  // namespace convoy::train
