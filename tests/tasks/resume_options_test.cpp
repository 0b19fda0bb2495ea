#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "convoy/base/files.h"
#include "convoy/base/text.h"
#include "convoy/models/decoder/decoder.h"
#include "convoy/models/language_model.h"
#include "convoy/options/arguments.h"
#include "convoy/tasks/chat/task.h"
#include "convoy/tasks/classification/task.h"
#include "convoy/tasks/language/task.h"
#include "convoy/tasks/preference/task.h"
#include "convoy/tasks/session/session_arguments.h"
#include "tests/cli/command_testing.h"

// What a resumed run believes: of each option whether the value given now counts.
namespace convoy::tasks {
namespace {

/// What becomes of an option whose value differs from that of the run which saved.
enum class Belief {
  MayChange,  ///< the new value counts from here on
  Kept,       ///< what the checkpoint has counts
  Refused,    ///< the run does not start
};

struct Entry {
  Belief belief;
  std::vector<const char*> options;
};

const std::vector<Entry>& entries_of_trainer() {
  static const std::vector<Entry> all{
      {Belief::Refused, {"train.optim", "train.seed", "train.data_seed"}},
      // How long, and with which batches.
      {Belief::MayChange,
       {"train.num_train_epochs", "train.max_steps", "train.stop_steps",
        "train.per_device_train_batch_size", "train.per_device_eval_batch_size",
        "train.gradient_accumulation_steps", "train.global_batch_size",
        "train.auto_find_batch_size", "train.dataloader_drop_last"}},
      // How a step is made.
      {Belief::MayChange,
       {"train.gradient_checkpointing", "train.learning_rate", "train.weight_decay",
        "train.adam_beta1", "train.adam_beta2", "train.adam_epsilon", "train.max_grad_norm",
        "train.check_replicas_steps", "train.sum_steps", "train.lr_scheduler_type",
        "train.lr_scheduler_kwargs", "train.warmup_ratio", "train.warmup_steps", "train.bf16",
        "train.fp16", "train.tf32", "train.deterministic", "train.deepspeed"}},
      // What is logged, evaluated and saved.
      {Belief::MayChange,
       {"train.logging_strategy", "train.logging_steps", "train.logging_first_step",
        "train.eval_strategy", "train.eval_steps", "train.eval_on_start", "train.save_strategy",
        "train.save_steps", "train.save_total_limit", "train.save_async", "train.disk_full_wait",
        "train.memory_copy_steps", "train.resume_from_checkpoint", "train.report_to",
        "train.logging_dir"}},
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
        "parallel.expert_parallel_size",
        "parallel.expert_joined",
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
        "output.events", "output.metrics_file", "output.metrics_port", "output.max_shard_size"}},
  };
  return all;
}

const char* told(Belief belief) {
  switch (belief) {
    case Belief::MayChange:
      return "may change";
    case Belief::Kept:
      return "kept";
    case Belief::Refused:
      return "refused";
  }
  return "";
}

/// Of the tasks' options those that config.json does not hold; "t5 data.x": of that family alone.
const std::vector<Entry>& entries_of_tasks() {
  static const std::vector<Entry> all{
      // What the model is, under other names than config.json's.
      {Belief::Refused,
       {"model.family", "model.task", "model.config_name", "model.config_overrides", "model.parity",
        "model.prediction_tasks", "model.task_weights", "model.pretrained_embeddings",
        "model.pretrained_trainable", "model.item_tower",
        "model.original_max_position_embeddings"}},
      // What adapters are, by adapter_config.json.
      {Belief::Refused,
       {"model.lora_r", "model.lora_alpha", "model.lora_dropout", "model.lora_target_modules",
        "model.modules_to_save", "model.use_rslora", "model.rank_pattern", "model.alpha_pattern"}},
      // Which weights a run begins with.
      {Belief::Kept, {"model.model_name_or_path", "model.start", "model.adapter_name_or_path"}},
      // The day that a chat template is told.
      {Belief::Kept, {"data.template_date"}},
      // Which rows there are, what their ids mean and, in mid-epoch, in which order they come.
      {Belief::Refused,
       {"data.path",
        "data.train",
        "data.partition",
        "data.shuffle_window",
        "data.windows",
        "data.start",
        "data.keep_moments",
        "data.tokenizer",
        "data.grouping",
        "data.block_size",
        "data.max_train_samples",
        "data.mixture",
        "data.mixture_stop",
        "data.validation_split_percentage",
        "data.random_tokens",
        "data.label",
        "t5 data.mlm_probability",
        "chat data.max_length",
        "preference data.max_length",
        "data.train_on",
        "data.too_long",
        "data.packing",
        "data.documents",
        "data.document_end_token",
        "data.chat_template",
        "data.chat_template_kwargs"}},
      // Which pairs are evaluated, whose reference the run has kept.
      {Belief::Refused, {"preference data.valid", "preference data.max_eval_samples"}},
      {Belief::Refused, {"train.ref_model_name_or_path"}},
      // The loss of pairs.
      {Belief::MayChange,
       {"train.beta", "train.loss_type", "train.label_smoothing", "train.disable_dropout"}},
      // How targets count.
      {Belief::MayChange, {"train.label_smoothing_factor", "train.event_weights"}},
      // What is in a row of the same number, and how it is read.
      {Belief::MayChange,
       {"data.schema", "data.truncation", "data.memory_budget_mb", "data.prefetch_depth",
        "data.end", "data.ids_tokenizer", "data.column", "data.mlm_probability",
        "data.mean_noise_span_length", "data.text", "data.text_pair",
        "classification data.max_length", "data.pad_to_multiple_of", "data.skip_corrupt"}},
      // Causal models and their data do not read these.
      {Belief::MayChange,
       {"gpt2 model.bos_token_id", "gpt2 model.eos_token_id", "decoder model.bos_token_id",
        "decoder model.eos_token_id"}},
      // What is evaluated.
      {Belief::MayChange,
       {"data.valid", "data.max_eval_samples", "train.do_eval", "train.top_ks",
        "train.exclude_seen", "train.baselines", "train.metric_names", "train.eval_time"}},
  };
  return all;
}

std::map<std::string, Belief> by_option(const std::vector<Entry>& entries) {
  std::map<std::string, Belief> out;
  for (const auto& entry : entries) {
    for (const char* option : entry.options) {
      EXPECT_TRUE(out.emplace(option, entry.belief).second) << option << " has two entries";
    }
  }
  return out;
}

/// Options with what becomes of them, as rows of a page, in the order that they are declared in.
class Page {
 public:
  explicit Page(const std::vector<Entry>& entries) : beliefs_(by_option(entries)) {}

  /// `config` is the config.json that a run of the task writes: another one is refused.
  std::string table(const std::string& task, const OptionTable& table, const Json& config) {
    return kHead + rows(task, table, config);
  }

  /// Options of several tables that are one task, each once; of one `section` where it is named.
  std::string rows(const std::string& task, const OptionTable& table, const Json& config,
                   const std::string& section = "") {
    std::string out;
    for (const auto& option : table.options()) {
      if (!section.empty() && option.section != section) continue;
      if (!listed_.insert(task + " " + option.key()).second) continue;
      const auto key = option.key(), own = task + " " + key;
      auto found = beliefs_.find(own);
      if (found == beliefs_.end()) found = beliefs_.find(key);
      if (found != beliefs_.end()) used_.insert(found->first);
      const bool in_config = config.contains(key.substr(key.find('.') + 1));
      EXPECT_TRUE(found != beliefs_.end() || in_config)
          << own << " has no entry: what does a resumed run make of it?";
      const auto belief = found == beliefs_.end() ? Belief::Refused : found->second;
      out += "| `" + key + "` | " + told(belief) + " |\n";
    }
    return out;
  }

  void expect_all_used() const {
    for (const auto& [option, belief] : beliefs_) {
      EXPECT_TRUE(used_.contains(option)) << option << " is no option any more";
    }
  }

  static constexpr const char* kHead = "| option | when resuming |\n|---|---|\n";

 private:
  std::map<std::string, Belief> beliefs_;
  std::set<std::string> used_, listed_;
};

OptionTable table_of(Task& task) {
  OptionTable table;
  task.declare(table);
  return table;
}

/// docs/resuming.md is written by this test when CONVOY_UPDATE_DOCS is set, and checked otherwise.
TEST(ResumedOptions, EachHasAnEntry) {
  options::TrainingArguments training;
  OptionTable of_trainer, of_sessions;
  training.declare(of_trainer);
  SessionArguments session;
  session.declare(of_sessions);
  Page trainer(entries_of_trainer()), tasks(entries_of_tasks());
  std::string page =
      "# What a resumed run believes\n\nOf each option: whether the value that is given when a run "
      "resumes counts (may change), that of the checkpoint counts (kept),\nor the run does not "
      "start with another one (refused). `seed` is refused where it is the `data_seed`, too.\n\n"
      "Kept from the checkpoint are weights, moments, the loss scale, the position in the data and "
      "the best evaluation; with\n`strategy = plan` also its plan, while ranks, device and batch "
      "are the same. Options of the model are refused where its\n`config.json` would be another "
      "one; those of the data where rows, encoding or (in mid-epoch) their order would be.\n\n" +
      trainer.table("", of_trainer, Json::object()) + "\n## Session models\n\n" +
      tasks.table("session", of_sessions, session.model.to_json());
  std::string decoders;
  std::vector<std::string> names;
  for (const auto& family : models::language_families()) {
    LanguageTask task(family);
    const auto config = models::make_model_config(family);
    if (dynamic_cast<models::DecoderConfig*>(config.get()) != nullptr) {
      names.push_back(family);
      decoders += tasks.rows("decoder", table_of(task), config->to_json());
    } else {
      page += "\n## " + family + "\n\n" + tasks.table(family, table_of(task), config->to_json());
    }
  }
  page += "\n## Decoders\n\n" +
          wrap("Options of " + join(names) + ", where a family has them.", 0) + "\n\n" +
          Page::kHead + decoders;
  ClassificationTask task;
  page += "\n## Classification\n\n" + tasks.table("classification", table_of(task),
                                                  models::make_model_config("bert")->to_json());
  ChatTask chat("llama");
  page += std::string("\n## Chat\n\nBeside the options of the model's family.\n\n") + Page::kHead +
          tasks.rows("chat", table_of(chat), Json::object(), "data");
  PreferenceTask preference("llama");
  const auto of_pairs = table_of(preference);
  page += std::string("\n## Preferences\n\nBeside the options of the model's family.\n\n") +
          Page::kHead + tasks.rows("preference", of_pairs, Json::object(), "data") +
          tasks.rows("preference", of_pairs, Json::object(), "train");
  trainer.expect_all_used();
  tasks.expect_all_used();
  const auto file = std::string(CONVOY_SOURCE_DIR) + "/docs/resuming.md";
  if (std::getenv("CONVOY_UPDATE_DOCS") != nullptr) write_file(file, page);
  EXPECT_EQ(read_file(file), page)
      << "try CONVOY_UPDATE_DOCS=1 build/tests/test_tasks --gtest_filter=ResumedOptions.*";
}

class ResumedTask : public CommandTest {};

TEST_F(ResumedTask, TakesOrRefusesWhatTheTableSays) {
  make_sessions();
  const auto train = "train" + kTiny + "--save_steps 2 --output_dir out --max_steps ";
  ASSERT_EQ(run(train + "4"), 0) << output_;
  const auto resumed = [&](const std::string& more) {
    return run(train + "5 --resume_from_checkpoint out/checkpoint-2 " + more);
  };
  for (const char* refused :
       {"--n_layer 2", "--dropout 0.2", "--data.max_length 10", "--parity transformers4rec",
        "--data.train syn/valid.parquet", "--shuffle_window 10", "--partition row_groups"}) {
    EXPECT_EQ(resumed(refused), 2) << refused << "\n" << output_;
  }
  for (const char* taken :
       {"--model_name_or_path out", "--data.valid syn/train.parquet", "--truncation keep_first",
        "--memory_budget_mb 64", "--prefetch_depth 2", "--top_ks 3", "--exclude_seen true"}) {
    EXPECT_EQ(resumed(taken), 0) << taken << "\n" << output_;
  }
}

TEST_F(ResumedTask, TextTasksTakeOrRefuseWhatTheTableSays) {
  std::string words = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n", lines, labelled;
  for (int i = 0; i < 20; ++i) words += "w" + std::to_string(i) + "\n";
  for (int i = 0; i < 400; ++i) lines += "w" + std::to_string(i * 7 % 20) + " ";
  for (int i = 0; i < 20; ++i) {
    labelled +=
        R"({"text": "w1 w)" + std::to_string(i) + R"(", "label": )" + std::to_string(i % 2) + "}\n";
  }
  write_file(folder_ / "words/vocab.txt", words);
  write_file(folder_ / "text.txt", lines);
  write_file(folder_ / "labelled.jsonl", labelled);
  const std::string bert =
      " --family bert --hidden_size 16 --num_hidden_layers 1 --num_attention_heads 2 "
      "--intermediate_size 16";
  struct Case {
    std::string name, model, refused, taken;
  };
  for (const auto& one : std::vector<Case>{
           {"gpt2",
            " --family gpt2 --n_embd 16 --n_layer 1 --n_head 2 --block_size 8 --data.train "
            "text.txt",
            "--block_size 4", "--data.valid text.txt"},
           {"bert", bert + " --block_size 8 --data.train text.txt", "--hidden_act relu",
            "--mlm_probability 0.3"},
           {"classification", bert + " --task classification --data.train labelled.jsonl",
            "--hidden_dropout_prob 0.3", "--data.max_length 8"}}) {
    const auto train = "train" + one.model +
                       " --data.tokenizer words --threads 1 --per_device_train_batch_size 2 "
                       "--save_steps 2 --output_dir " +
                       one.name + " --max_steps ";
    ASSERT_EQ(run(train + "3"), 0) << output_;
    const auto resumed = [&](const std::string& more) {
      return run(train + "4 --resume_from_checkpoint " + one.name + "/checkpoint-2 " + more);
    };
    EXPECT_EQ(resumed(one.refused), 2) << one.name << " " << one.refused << "\n" << output_;
    EXPECT_EQ(resumed(one.taken), 0) << one.name << " " << one.taken << "\n" << output_;
  }
}

}  // namespace
}  // namespace convoy::tasks
