#include "convoy/tasks/session/arguments.h"

#include "convoy/base/error.h"
#include "convoy/base/text.h"
#include "convoy/formats/schema.h"
#include "convoy/tasks/session/option_hints.h"

namespace convoy::tasks {
namespace fs = std::filesystem;

namespace {

/// Whether a value in TOML is `plain`: numbers by value, text without its quotes.
bool same_value(std::string toml, const std::string& plain) {
  double a = 0, b = 0;
  if (parse_number(toml, a) && parse_number(plain, b)) return a == b;
  std::erase(toml, '"');
  return toml == plain;
}

std::string or_in(const std::string& given, const std::string& folder, const char* name) {
  if (!given.empty()) return given;
  return folder.empty() ? "" : (fs::path(folder) / name).string();
}

}  // namespace

std::string valid_in(const std::string& where) {
  const auto file = fs::path(where) / "valid.parquet";
  return fs::exists(file) ? file.string() : where;
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

std::string DataArguments::items_file() const {
  auto file = fs::path(schema_file()).parent_path() / "items.parquet";
  return fs::exists(file) ? file.string() : "";
}

void SessionArguments::declare(OptionTable& t) {
  const char* s = "model";
  t.add(s, "family", model.family, "model family").choice({"session"});
  t.add(s, "d_model", model.d_model, "width of the body").at_least(1).alias("n_embd");
  t.add(s, "n_layer", model.n_layer, "layers of the body").at_least(0);
  t.add(s, "n_head", model.n_head, "attention heads").at_least(1);
  t.add(s, "n_inner", model.n_inner, "width of the feed-forward part; 0 = 4 x d_model").at_least(0);
  t.add(s, "dropout", model.dropout, "rate on embeddings, attention and residuals").within(0, 0.99);
  t.add(s, "activation", model.activation, "of the feed-forward part")
      .choice({"gelu", "gelu_new", "relu"});
  t.add(s, "layer_norm_epsilon", model.layer_norm_epsilon, "added to the variance").at_least(0);
  t.add(s, "initializer_range", model.initializer_range, "standard deviation of initial weights")
      .at_least(0);
  t.add(s, "item_embedding_dim", model.item_embedding_dim,
        "width of the item embedding; 0 = "
        "d_model")
      .at_least(0);
  t.add(s, "embedding_dim", model.embedding_dim, "width of other embeddings; 0 = d_model")
      .at_least(0);
  t.add(s, "aggregation", model.aggregation, "how features become one input")
      .choice({"concat", "element-wise-sum", "element-wise-sum-item-multi"});
  t.add(s, "continuous_projection", model.continuous_projection,
        "width that continuous features are projected to; 0 = d_model")
      .at_least(0);
  t.add(s, "body", model.body, "transformer layers: causal, or looking at both sides")
      .choice({"gpt2", "bert"});
  t.add(s, "masking", model.masking,
        "predict each next item (clm), or hidden items (mlm); auto = what the body can do")
      .choice({"auto", "clm", "mlm"});
  t.add(s, "mlm_probability", model.mlm_probability, "part of the items that mlm hides")
      .within(0.01, 0.99);
  t.add(s, "embedding_initializer_range", model.embedding_initializer_range,
        "standard deviation of initial embeddings")
      .at_least(0);
  t.add(s, "score_padding", model.score_padding, "the padding id 0 competes with the items");
  t.add(s, "attend_padding", model.attend_padding, "bert bodies look at padding, too");
  t.add(s, "parity", model.parity,
        "set every option that you do not set to what another program does")
      .choice({"none", "transformers4rec"});
  t.add(s, "temperature", model.temperature, "scores are divided by it").at_least(1e-6);

  s = "data";
  t.add(s, "path", data.path,
        "folder with train.parquet, valid.parquet, schema.json or schema.pbtxt")
      .path();
  t.add(s, "train", data.train, "training Parquet: file, folder or pattern")
      .alias("train_file")
      .path();
  t.add(s, "valid", data.valid, "evaluation Parquet: file, folder or pattern")
      .alias("validation_file")
      .path();
  t.add(s, "schema", data.schema, "schema in Transformers4Rec's form, schema.json or schema.pbtxt")
      .path();
  t.add(s, "features", data.features,
        "columns to use; none = every categorical or continuous list "
        "column of the schema");
  t.add(s, "max_length", data.max_length, "longest session; longer ones are cut")
      .at_least(2)
      .alias("max_sequence_length");
  t.add(s, "truncation", data.truncation, "which end of a long session stays")
      .choice({"keep_last", "keep_first"});
  t.add(s, "partition", data.partition,
        "share by rows, or by whole row groups as Transformers4Rec "
        "does")
      .choice({"rows", "row_groups"});
  t.add(s, "shuffle_window", data.shuffle_window, "rows that a lane shuffles at once; 0 = 1024")
      .at_least(0);
  t.add(s, "memory_budget_mb", data.memory_budget_mb,
        "decoded data kept in memory; larger data "
        "is streamed")
      .at_least(1);
  t.add(s, "prefetch_depth", data.prefetch_depth, "steps that are read ahead").within(1, 1024);

  s = "train";
  t.add(s, "top_ks", ranking.top_ks, "cut-offs of NDCG, Recall and MRR");
  t.add(s, "metric_names", ranking.metric_names,
        "transformers4rec: ranking metrics also as eval_/next-item/ndcg_at_10 and so on")
      .choice({"plain", "transformers4rec"});
  add_hints(t);
}

void SessionArguments::check(const OptionTable& table) const {
  ranking.top_k_values();
  const bool hides = model.masking == "mlm" || (model.masking == "auto" && model.body == "bert");
  if (table.asked_for("model.mlm_probability") && !hides) {
    fail<UsageError>("config",
                     "model.mlm_probability = {} has no effect with model.body = {} and "
                     "model.masking = {}, which hide no items; try --body bert",
                     model.mlm_probability, model.body, model.masking);
  }
}

void SessionArguments::apply_parity(OptionTable& table) {
  if (model.parity != "transformers4rec") return;
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
    } else if (!option.typed && !same_value(option.toml(), value)) {
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
    if (!parse_number(text, k) || k < 1) {
      fail<UsageError>("config", "train.top_ks has '{}'; expected whole numbers of at least 1",
                       text);
    }
    out.push_back(k);
  }
  return out;
}

}  // namespace convoy::tasks
