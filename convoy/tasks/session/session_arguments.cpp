#include "convoy/tasks/session/session_arguments.h"

#include <cmath>

#include "convoy/base/error.h"
#include "convoy/base/text.h"
#include "convoy/data/window_folders.h"
#include "convoy/formats/schema.h"
#include "convoy/models/session/session_bodies.h"
#include "convoy/options/trainer_flags.h"
#include "convoy/tasks/session/training_defaults.h"

namespace convoy::tasks {
namespace fs = std::filesystem;

namespace {

constexpr int64_t kMostTopK = 1'000'000;  // of each rank up to it evaluations keep a count

bool same_value(const std::string& one, const std::string& other) {
  double a = 0, b = 0;
  return parse_number(one, a) && parse_number(other, b) ? a == b : one == other;
}

std::string or_in(const std::string& given, const std::string& folder, const char* name) {
  if (!given.empty()) return given;
  return folder.empty() ? "" : (fs::path(folder) / name).string();
}

void add_hints(OptionTable& table) {
  // Names of these options in Hugging Face's configs, in Lightning, and in common use.
  static const std::vector<OptionHint> hints{
      {"model.d_model",
       true,
       {"hidden_size", "hidden", "width", "dim", "embed_dim", "model_dim", "d_output"}},
      {"model.n_layer", true, {"layers", "num_layers", "num_hidden_layers", "n_layers", "depth"}},
      {"model.n_head", true, {"heads", "num_heads", "num_attention_heads", "n_heads"}},
      {"model.n_inner", false, {"intermediate_size", "d_ff", "ffn_dim", "d_inner"}},
      {"model.dropout", true, {"drop", "resid_pdrop", "hidden_dropout_prob", "attn_pdrop"}},
      {"model.activation", false, {"activation_function", "hidden_act"}},
      {"model.body", true, {"model_type", "arch", "architecture"}},
      {"model.masking", false, {"mlm"}},
      {"data.path", true, {"data", "data_dir", "data_path", "input", "dataset"}},
      {"data.train", true, {"training_file", "train_data", "train_path"}},
      {"data.valid", true, {"eval_file", "valid_file", "validation", "eval_data", "test"}},
      {"data.features", true, {"columns"}},
      {"data.max_length",
       true,
       {"max_seq_length", "seq_len", "seq_length", "total_seq_length", "max_len", "block_size",
        "n_positions"}},
      {"train.top_ks", true, {"top_k", "topk", "k"}},
  };
  for (const auto& hint : hints) table.hint(hint);
}

}  // namespace

std::string rows_in(const std::string& where) {
  std::error_code ignored;
  for (const char* name : {"valid.parquet", "train.parquet"}) {
    const auto file = fs::path(where) / name;
    if (fs::exists(file, ignored)) return file.string();
  }
  if (const auto window = data::last_window(where); !window.empty()) {
    fail<UsageError>("data", "{} is a folder of windows; expected the data of one; try --data {}",
                     where, window.string());
  }
  return where;
}

std::string DataArguments::train_file() const {
  const auto file = or_in(train, path, "train.parquet");
  if (!train.empty() || file.empty() || fs::exists(file)) return file;
  const auto sample = fs::path(path) / "data.parquet";  // as Transformers4Rec's own folders
  return fs::exists(sample) ? sample.string() : file;
}

std::string DataArguments::valid_file() const {
  if (!valid.empty()) return valid;
  auto file = or_in("", path, "valid.parquet");
  return !file.empty() && fs::exists(file) ? file : "";
}

std::string DataArguments::schema_file() const {
  if (!schema.empty()) return schema;
  auto folder = fs::path(path);
  if (path.empty()) {
    if (train.empty()) return "";
    folder = fs::is_directory(train) ? fs::path(train) : fs::path(train).parent_path();
  }
  return formats::schema_in(folder).string();
}

std::string DataArguments::beside_schema(const std::string& name) const {
  auto file = fs::path(schema_file()).parent_path() / name;
  return fs::exists(file) ? file.string() : "";
}

void SessionArguments::declare(OptionTable& t) {
  const char* s = "model";
  t.add(s, "family", family, "model family").choice({"session"});
  t.add(s, "parity", parity, "give options that you do not set the values of another library")
      .choice({"none", "transformers4rec"});
  t.add(s, "prediction_tasks", prediction_tasks,
        "what to predict: next-item, and session-level targets from columns with one value per "
        "row: binary:COLUMN (0 or 1), regression:COLUMN");
  t.add(s, "task_weights", task_weights,
        "loss weights of prediction_tasks, one each; none = 1 each");
  t.add(s, "model_name_or_path", model_name_or_path,
        "folder of an earlier run to initialise the weights from; its embedding tables may have "
        "fewer ids")
      .path();
  t.add(s, "pretrained_embeddings", pretrained_embeddings,
        "initial values of embeddings: COLUMN=FILE each, a Parquet file of raw ids and lists of "
        "numbers, or .npy, .safetensors")
      .differs(/*if_given=*/true);
  t.add(s, "pretrained_trainable", pretrained_trainable,
        "train these embeddings, too; else they are frozen");
  t.add(s, "item_tower", item_tower,
        "features of items, of those that convoy data sessions --item-tower keeps, that an item's "
        "vector has beside its embedding, as input and in its score: items that training never saw "
        "are ranked by them alone");
  models::declare_options(t, s, model.fields());

  s = "data";
  t.add(s, "path", data.path,
        "folder with train.parquet, valid.parquet, schema.json or schema.pbtxt")
      .path();
  t.add(s, "train", data.train, "training Parquet: file, folder or glob pattern")
      .alias("train_file")
      .path();
  t.add(s, "valid", data.valid, "evaluation Parquet: file, folder or glob pattern")
      .alias("validation_file")
      .path();
  t.add(s, "schema", data.schema,
        "schema in Transformers4Rec's format, schema.json or schema.pbtxt")
      .path();
  t.add(s, "windows", data.windows,
        "folder of time windows, 0001 and so on: train on each in turn, evaluate on the next")
      .path();
  t.add(s, "start", data.start, "first window to train on").at_least(1).only_with("data.windows");
  t.add(s, "end", data.end, "last window, for evaluation; 0 = the last in the folder")
      .at_least(0)
      .only_with("data.windows");
  t.add(s, "keep_moments", data.keep_moments,
        "each window starts with the optimizer moments of the previous one; else they are reset")
      .only_with("data.windows");
  t.add(s, "features", data.features,
        "columns to use; none = every categorical, continuous or embedding column of the schema, "
        "with one value per session or per item");
  t.add(s, "truncation", data.truncation, "which end of a long session to keep")
      .choice({"keep_last", "keep_first"});
  t.add(s, "partition", data.partition,
        "split data over ranks by rows, or by whole row groups as Transformers4Rec does")
      .choice({"rows", "row_groups"});
  t.add(s, "shuffle_window", data.shuffle_window,
        "rows that are shuffled together in each of 64 lanes; 0 = all rows if the data take at "
        "most 256 MiB decoded, else 1024; the number of rows or more = all rows")
      .at_least(0);
  t.add(s, "memory_budget_mb", data.memory_budget_mb,
        "decoded data kept in memory; larger data "
        "is streamed")
      .within(1, int64_t{1} << 40)
      .differs();
  t.add(s, "prefetch_depth", data.prefetch_depth, "steps to read ahead").within(1, 1024).differs();

  s = "train";
  t.add(s, "top_ks", ranking.top_ks, "cut-offs of NDCG, Recall, MRR and AP (average precision)");
  t.add(s, "exclude_seen", ranking.exclude_seen,
        "evaluate and recommend among items that the person has not seen; auto = as the run was "
        "trained, as convoy data sessions decided for the data (where under 1 % of the events "
        "repeat an item of the person), else false")
      .choice({"auto", "true", "false"});
  t.add(s, "baselines", ranking.baselines,
        "recommenders without a network to compare the model with on the same rows: popularity, "
        "itemknn[:NEIGHBOURS], ease[:REGULARIZATION], or none");
  t.add(s, "metric_names", ranking.metric_names,
        "transformers4rec: report its ranking metrics, too, by its names: "
        "eval_/next-item/ndcg_at_10, "
        "and so on with dcg, recall, precision, avg_precision")
      .choice({"plain", "transformers4rec"});
  t.add(s, "event_weights", event_weights,
        "column of the events that weights the loss of each target in training: COLUMN of numbers, "
        "or COLUMN:VALUE=WEIGHT,... of categories (others have 1); evaluations count all alike");
  t.add(s, "eval_time", model.eval_time,
        "time at which evaluations ask hstu for the next item: of the session's last event, as in "
        "serving, or of the target, which serving does not know")
      .choice({"last", "target"})
      .only_with("model.body", models::bodies_with([](const models::SessionBody& body) {
                   return body.reads_times;
                 }));
  add_hints(t);
  t.answer(options::trainer_flags());
}

void SessionArguments::take_tasks() {
  const auto& tasks = prediction_tasks;
  if (std::count(tasks.begin(), tasks.end(), models::kNextItem) != 1) {
    fail<UsageError>("config",
                     "model.prediction_tasks = {}; expected next-item once, and any of "
                     "binary:COLUMN, regression:COLUMN",
                     join(tasks));
  }
  if (!task_weights.empty() && task_weights.size() != tasks.size()) {
    fail<UsageError>("config", "model.task_weights has {} for {}; expected one for each",
                     plural(std::ssize(task_weights), "weight"), plural(std::ssize(tasks), "task"));
  }
  model.targets.clear();
  for (size_t i = 0; i < tasks.size(); ++i) {
    double weight = 1;
    if (!task_weights.empty() &&
        (!parse_number(task_weights[i], weight) || weight < 0 || !std::isfinite(weight))) {
      fail<UsageError>("config",
                       "model.task_weights has '{}'; expected finite numbers of at least 0",
                       task_weights[i]);
    }
    if (tasks[i] == models::kNextItem) {
      model.next_item_weight = weight;
      continue;
    }
    const auto colon = tasks[i].find(':');
    const auto kind = tasks[i].substr(0, colon);
    const auto column = colon == std::string::npos ? "" : tasks[i].substr(colon + 1);
    if ((kind != models::kBinary && kind != models::kRegression) || column.empty()) {
      fail<UsageError>("config",
                       "model.prediction_tasks has '{}'; expected next-item, binary:COLUMN or "
                       "regression:COLUMN",
                       tasks[i]);
    }
    for (const auto& other : model.targets) {
      if (other.column != column) continue;
      fail<UsageError>("config", "model.prediction_tasks has the column '{}' twice", column);
    }
    model.targets.push_back({column, kind == models::kBinary, weight});
  }
}

void SessionArguments::apply_parity(OptionTable& table) {
  if (parity != "transformers4rec") return;
  set_plain_defaults(table, "parity = transformers4rec");
  std::vector<std::pair<const char*, const char*>> quirks{
      {"model.dropout", "0.3"},
      {"model.initializer_range", "0.01"},
      {"model.embedding_initializer_range", "0.05"},
      {"model.score_padding", "true"},
      {"data.truncation", "keep_first"},
      {"train.metric_names", "transformers4rec"},
  };
  if (model.body == "bert") {  // its config's dropout and width do not reach Hugging Face's BERT
    quirks[0].second = "0.1";
    quirks.insert(quirks.end(), {{"model.n_inner", "3072"},
                                 {"model.layer_norm_epsilon", "0.03"},
                                 {"model.attend_padding", "true"}});
  }
  std::vector<std::string> kept;
  for (const auto& [key, value] : quirks) {
    const Option& option = *table.find(key);
    if (option.source.empty()) {
      table.set(key, value, "parity = transformers4rec");
    } else if (!option.typed && !same_value(option.plain(), value)) {
      kept.push_back(fmt::format("{} = {} instead of {}", key, option.toml(), value));
    }
  }
  if (!kept.empty() && table.find("model.parity")->typed) {
    warnings.push_back(fmt::format(
        "--parity transformers4rec does not change what the configuration file sets: {}{}",
        join(kept), kept.size() == quirks.size() ? "; so it changes nothing" : ""));
  }
}

std::vector<int64_t> RankingArguments::top_k_values() const {
  std::vector<int64_t> out;
  for (const auto& text : top_ks) {
    int64_t k = 0;
    if (!parse_number(text, k) || k < 1 || k > kMostTopK) {
      fail<UsageError>("config", "train.top_ks has '{}'; expected whole numbers from 1 to {}", text,
                       kMostTopK);
    }
    out.push_back(k);
  }
  return out;
}

}  // namespace convoy::tasks
