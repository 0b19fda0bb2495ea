#include "convoy/tasks/unread_options.h"

#include <fmt/format.h>

#include <set>

#include "convoy/base/text.h"
#include "convoy/tokenizers/tokenizer.h"

namespace convoy::tasks {

namespace fs = std::filesystem;

bool read_without_training(const Option& option) {
  static const std::set<std::string> kRead{"train.per_device_eval_batch_size",
                                           "train.bf16",
                                           "train.fp16",
                                           "train.deterministic",
                                           "train.seed",
                                           "train.data_seed",
                                           "train.top_ks",
                                           "train.metric_names",
                                           "train.eval_time",
                                           "train.exclude_seen",
                                           "train.baselines",
                                           "train.beta",
                                           "train.loss_type",
                                           "train.label_smoothing",
                                           "output.quiet"};
  return option.section == "parallel" || kRead.contains(option.key());
}

std::string unread_options(const OptionTable& table, const fs::path& folder,
                           const std::string& command) {
  const bool own =
      tokenizers::holds_tokenizer(folder) || tokenizers::holds_tokenizer(folder / "..");
  std::vector<std::string> unread;
  for (const auto& option : table.options()) {
    if (!option.typed) continue;
    const auto& section = option.section;
    const bool of_training =
        (section == "train" || section == "output") && !read_without_training(option);
    // Predictions keep no activations for a backward.
    const bool of_states = option.key() == "parallel.sequence_parallel" && command != "eval";
    // Predictions have no targets, so no time of a target and no metrics.
    static const std::set<std::string> kOfMetrics{"train.eval_time", "train.top_ks",
                                                  "train.baselines", "train.metric_names"};
    const bool of_metrics = command != "eval" && kOfMetrics.contains(option.key());
    if (option.key() == "data.tokenizer") {
      if (own) unread.push_back(fmt::format("--tokenizer ({} has its own)", folder.string()));
    } else if (of_training || of_states || of_metrics ||
               (section == "data" && command == "generate")) {
      unread.push_back("--" + option.name);
    }
  }
  return unread.empty() ? "" : "without effect here: " + join(unread);
}

}  // namespace convoy::tasks
