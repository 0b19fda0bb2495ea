#include <gmock/gmock.h>

#include <cstdlib>
#include <map>
#include <set>

#include "convoy/base/files.h"
#include "tests/train/folders_testing.h"

// What a resumed run believes: of each option of the Trainer whether the value given now counts.
namespace convoy::train {
namespace {

using ::testing::HasSubstr;

/// What becomes of an option whose value differs from that of the run which saved.
enum class Belief {
  MayChange,  ///< the new value counts from here on
  Refused,    ///< the run does not start
};

struct Entry {
  Belief belief;
  std::vector<const char*> options;
};

const std::vector<Entry>& entries() {
  static const std::vector<Entry> all{
      {Belief::Refused, {"train.optim", "train.seed", "train.data_seed"}},
      // How long, and with which batches.
      {Belief::MayChange,
       {"train.num_train_epochs", "train.max_steps", "train.per_device_train_batch_size",
        "train.per_device_eval_batch_size", "train.gradient_accumulation_steps",
        "train.global_batch_size", "train.auto_find_batch_size", "train.dataloader_drop_last"}},
      // How a step is made.
      {Belief::MayChange,
       {"train.gradient_checkpointing", "train.learning_rate", "train.weight_decay",
        "train.adam_beta1", "train.adam_beta2", "train.adam_epsilon", "train.max_grad_norm",
        "train.check_replicas_steps", "train.sum_steps", "train.lr_scheduler_type",
        "train.warmup_ratio", "train.warmup_steps", "train.bf16", "train.fp16", "train.tf32",
        "train.deterministic", "train.deepspeed"}},
      // What is logged, evaluated and saved.
      {Belief::MayChange,
       {"train.logging_strategy", "train.logging_steps", "train.logging_first_step",
        "train.eval_strategy", "train.eval_steps", "train.eval_on_start", "train.save_strategy",
        "train.save_steps", "train.save_total_limit", "train.save_async",
        "train.resume_from_checkpoint", "train.report_to", "train.logging_dir"}},
      // With another metric or direction the best evaluation starts anew.
      {Belief::MayChange,
       {"train.load_best_model_at_end", "train.metric_for_best_model", "train.greater_is_better",
        "train.early_stopping_patience", "train.early_stopping_threshold"}},
      // Where it runs: files hold tensors by global names.
      {Belief::MayChange,
       {"parallel.strategy",
        "parallel.replicas",
        "parallel.dp_batch",
        "parallel.backend",
        "parallel.pipeline_parallel_size",
        "parallel.pipeline_schedule",
        "parallel.pipeline_virtual_stages",
        "parallel.pipeline_placement",
        "parallel.pipeline_splits",
        "parallel.pipeline_memory",
        "parallel.pipeline_schedule_file",
        "parallel.pipeline_costs",
        "parallel.recompute_layers",
        "parallel.tensor_parallel_size",
        "parallel.sequence_parallel",
        "parallel.context_parallel_size",
        "parallel.threads",
        "parallel.bucket_cap_mb",
        "parallel.zero",
        "parallel.prefetch",
        "parallel.reshard_after_forward",
        "parallel.zero_keep_mb",
        "parallel.zero_reduce",
        "parallel.shard_ranks",
        "parallel.row_tables",
        "parallel.offload_optimizer",
        "parallel.offload_gradients",
        "parallel.offload_parameters",
        "parallel.offload_dir",
        "parallel.device_memory",
        "parallel.timeout",
        "parallel.device",
        "parallel.planned_ranks",
        "parallel.planned_split",
        "parallel.planned_step_seconds",
        "parallel.planned_memory_bytes",
        "parallel.planned_device"}},
      {Belief::MayChange,
       {"output.dir", "output.overwrite", "output.quiet", "output.trace", "output.trace_steps",
        "output.events", "output.max_shard_size"}},
  };
  return all;
}

const char* told(Belief belief) {
  switch (belief) {
    case Belief::MayChange:
      return "may change";
    case Belief::Refused:
      return "refused";
  }
  return "";
}

class ResumedOptions : public Folders {
 protected:
  std::string resumed(const std::function<void(TrainingArguments&)>& change) const {
    auto options = arguments(folder_ / "a", 6);
    options.resume_from_checkpoint = (folder_ / "a/checkpoint-2").string();
    change(options);
    return train(options, one_device()).error;
  }
};

/// docs/resuming.md is written by this test when CONVOY_UPDATE_DOCS is set, and checked otherwise.
TEST_F(ResumedOptions, EachOfTheTrainersHasAnEntry) {
  std::map<std::string, Belief> beliefs;
  for (const auto& entry : entries()) {
    for (const char* option : entry.options) {
      EXPECT_TRUE(beliefs.emplace(option, entry.belief).second) << option << " has two entries";
    }
  }
  TrainingArguments training;
  OptionTable table;
  training.declare(table);
  std::string page =
      "# What a resumed run believes\n\nOf each option of the Trainer: whether the value that is "
      "given when a run resumes counts (may change), or the run does\nnot start with another one "
      "(refused). `seed` is refused where it is the `data_seed`, too.\n\nKept from the checkpoint "
      "are weights, moments, the loss scale, the position in the data and the best evaluation; "
      "with\n`strategy = plan` also its plan, while ranks, device and batch are the same. The "
      "model's options are refused where its\n`config.json` would be another one; the data's where "
      "rows, encoding or (in mid-epoch) their order would be.\n\n| option | when resuming "
      "|\n|---|---|\n";
  std::set<std::string> declared;
  for (const auto& option : table.options()) {
    declared.insert(option.key());
    const auto found = beliefs.find(option.key());
    if (found == beliefs.end()) {
      ADD_FAILURE() << option.key() << " has no entry: what does a resumed run make of it?";
      continue;
    }
    page += "| `" + option.key() + "` | " + told(found->second) + " |\n";
  }
  for (const auto& [option, belief] : beliefs) {
    EXPECT_TRUE(declared.contains(option)) << option << " is no option any more";
  }
  const auto file = std::string(CONVOY_SOURCE_DIR) + "/docs/resuming.md";
  if (std::getenv("CONVOY_UPDATE_DOCS") != nullptr) write_file(file, page);
  EXPECT_EQ(read_file(file), page)
      << "try CONVOY_UPDATE_DOCS=1 build/tests/test_train --gtest_filter=ResumedOptions.*";
}

TEST_F(ResumedOptions, AreRefusedOrTakenAsTheTableSays) {
  ASSERT_EQ(train(arguments(folder_ / "a", 4), one_device()).error, "");
  EXPECT_THAT(resumed([](auto& o) { o.optim = "lion_32bit"; }), HasSubstr("try --optim"));
  EXPECT_THAT(resumed([](auto& o) { o.seed = 7; }), HasSubstr("data seed"));
  EXPECT_THAT(resumed([](auto& o) { o.data_seed = 7; }), HasSubstr("data seed"));
  const auto takes = [&](const char* what, const std::function<void(TrainingArguments&)>& change) {
    EXPECT_EQ(resumed(change), "") << what;
  };
  takes("rates", [](auto& o) {
    o.learning_rate = 1e-3;
    o.weight_decay = 0.1;
    o.lr_scheduler_type = "cosine";
    o.warmup_steps = 1;
    o.max_grad_norm = 0.5;
    o.adam_beta1 = 0.8;
  });
  takes("batches", [](auto& o) {
    o.per_device_train_batch_size = 2;
    o.gradient_accumulation_steps = 3;
    o.dataloader_drop_last = true;
  });
  takes("precision", [](auto& o) { o.bf16 = o.gradient_checkpointing = true; });
  takes("saving", [](auto& o) {
    o.save_steps = 1;
    o.save_total_limit = 2;
    o.save_async = false;
    o.logging_steps = 1;
    o.output.max_shard_size = "2KB";
  });
}

}  // namespace
}  // namespace convoy::train
