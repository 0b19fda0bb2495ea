#include "convoy/train/console.h"

#include <fmt/format.h>
#include <stdio_ext.h>

#include <cstdio>
#include <set>

#include "convoy/base/text.h"
#include "convoy/launch/error_file.h"

namespace convoy::train {

namespace {

template <class... Args>
void print(fmt::format_string<Args...> format, Args&&... args) {
  const auto text = fmt::format(format, std::forward<Args>(args)...);
  std::fwrite(text.data(), 1, text.size(), stdout);
}

/// Progress is no result: a run goes on where nobody can take it.
void flush() {
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return;
  ::__fpurge(stdout);  // else it would be an error at the end
  std::clearerr(stdout);
}

template <class... Args>
void item(const char* label, fmt::format_string<Args...> format, Args&&... args) {
  print("  {:<15}{}\n", label, fmt::format(format, std::forward<Args>(args)...));
}

std::string share_text(const std::vector<data::RankShare>& shares) {
  std::vector<std::string> parts;
  for (const auto& share : shares) {
    if (parts.size() == 8) {
      parts.push_back(fmt::format("... {} more ranks", shares.size() - 8));
      break;
    }
    parts.push_back(fmt::format("rank {}: {} rows, {} batches", share.rank, human_count(share.rows),
                                human_count(share.batches)));
  }
  return join(parts, "; ");
}

class Console : public Callback {
 public:
  explicit Console(bool quiet) : quiet_(quiet) {}

  void on_train_begin(const RunInfo& info) override {
    const auto& job = *info.job;
    const auto& arguments = *info.arguments;
    if (quiet_) return;
    for (const auto& warning : info.warnings) print("warning: {}\n", warning);
    print("training\n");
    item("strategy", "{} ({})", job.strategy, job.reason);
    item("ranks", "{} x {} {}, {} on {}", job.num_ranks(), job.threads,
         job.threads == 1 ? "thread" : "threads", job.devices[0].str(), launch::host_name());
    for (const auto& line : split(seats_table(info.seats), '\n')) {
      if (!line.empty()) print("    {}\n", line);
    }
    if (job.group.size() > 1) item("collectives", "{}", job.group.engine());
    if (!job.faster.empty()) item("hint", "{}", job.faster);
    item("examples", "{}", human_count(info.num_examples));
    if (!info.shares.empty() && job.group.size() > 1) item("shares", "{}", share_text(info.shares));
    item("parameters", "{} ({} trainable)", human_count(info.num_parameters),
         human_count(info.num_trainable_parameters));
    item("batch", "{} per device x {} {} x {} accumulation = {} in total", info.per_device_batch,
         job.num_ranks(), job.num_ranks() == 1 ? "device" : "devices",
         arguments.gradient_accumulation_steps, info.total_batch);
    if (job.num_ranks() > 1) {
      item("note",
           "the total batch counts all devices: the learning rate may need tuning and "
           "metrics may move");
    }
    item("steps", "{} ({} per epoch)", human_count(info.max_steps),
         human_count(info.steps_per_epoch));
    item("precision", "{}",
         arguments.bf16   ? "bf16 with fp32 master weights"
         : arguments.fp16 ? "fp16 with fp32 master weights and a loss scale"
         : arguments.tf32 ? "fp32, products in TF32"
                          : "fp32");
    item("output", "{}",
         arguments.output.dir.empty() ? "nothing is kept; try --output_dir DIR"
                                      : arguments.output.dir);
    if (!info.resumed_from.empty()) {
      item("resumed", "from {} at step {}", info.resumed_from, info.first_step);
    }
    flush();
  }

  void on_log(const LogRecord& r) override {
    if (quiet_) return;
    auto width = std::to_string(r.max_steps).size();
    print(
        "step {:>{}}/{}  epoch {:6.2f}  loss {:8.4f}  grad {:7.3f}  lr {:.2e}  {:>7.0f} "
        "samples/s  mem {}",
        r.step, width, r.max_steps, r.epoch, r.loss, r.grad_norm, r.learning_rate,
        r.samples_per_second, human_bytes(static_cast<double>(r.memory_bytes)));
    if (r.device_memory_bytes > 0) {
      print("  gpu {}", human_bytes(static_cast<double>(r.device_memory_bytes)));
    }
    if (r.data_wait_percent >= 1) print("  data {:.0f} %", r.data_wait_percent);
    if (r.comm_wait_percent >= 0.05) print("  comm {:.1f} %", r.comm_wait_percent);
    if (r.loss_scale > 0) print("  scale {:g}", r.loss_scale);
    if (r.skipped_steps > 0) print("  skipped {}", r.skipped_steps);
    if (r.step < r.max_steps) print("  left {}", human_seconds(r.seconds_left));
    print("\n");
    flush();
  }

  void on_evaluate(const Metrics& metrics, int64_t step) override {
    if (quiet_) return;
    print("evaluated after step {}: {}\n", step, metrics_text(metrics));
    flush();
  }

  void on_save(const std::filesystem::path& path) override {
    if (!quiet_) print("saved {}\n", path.string());
    flush();
  }

  void on_message(const std::string& text) override {
    if (!quiet_) {
      show_progress(text + "\n");
    } else if (text.starts_with("warning: ")) {
      fmt::print(stderr, "{}\n", text);
    }
  }

  void on_train_end(const Metrics& metrics) override {
    if (quiet_) return;
    print("trained in {}: {:.0f} samples/s, loss {:.4f}, peak memory {}",
          human_seconds(metrics.at("train_runtime")), metrics.at("train_samples_per_second"),
          metrics.at("train_final_loss"), human_bytes(metrics.at("peak_memory_bytes_per_rank")));
    if (auto gpu = metrics.find("peak_device_memory_bytes_per_rank"); gpu != metrics.end()) {
      print(", on a GPU {}", human_bytes(gpu->second));
    }
    const double waited = metrics.at("train_comm_wait_percent");
    if (waited >= 0.05) print(", waited for other ranks {:.1f} % of the time", waited);
    print("\n");
    flush();
  }

 private:
  bool quiet_;
};

}  // namespace

void show_progress(const std::string& text) {
  print("{}", text);
  flush();
}

std::string metrics_text(const Metrics& metrics) {
  std::vector<std::string> parts;
  auto show = [&](const std::string& key, const std::string& name) {
    parts.push_back(fmt::format("{} {:.4f}", name, metrics.at(key)));
  };
  if (metrics.count("eval_loss")) show("eval_loss", "loss");
  const std::set<std::string> told{"eval_loss", "eval_runtime", "eval_samples",
                                   "eval_samples_per_second", "eval_steps_per_second"};
  std::map<std::pair<std::string, int64_t>, std::string> others;  // kind and cut-off to key
  for (const auto& [key, value] : metrics) {
    if (key.rfind("eval_", 0) != 0 || key.find('/') != std::string::npos || told.count(key))
      continue;
    const auto at = key.find("_at_");
    int64_t cutoff = 0;
    if (at != std::string::npos) parse_number(key.substr(at + 4), cutoff);
    others[{key.substr(5, at == std::string::npos ? at : at - 5), cutoff}] = key;
  }
  for (const auto& [name, key] : others) {
    const auto& [kind, cutoff] = name;
    show(key, cutoff > 0 ? fmt::format("{}@{}", kind, cutoff) : kind);
  }
  return join(parts, "  ");
}

std::shared_ptr<Callback> make_console(bool quiet) {
  return std::make_shared<Console>(quiet);
}

}  // namespace convoy::train
