#include "convoy/models/language_model.h"

#include <ATen/ATen.h>

#include <functional>
#include <map>

#include "convoy/base/error.h"
#include "convoy/base/text.h"
#include "convoy/comm/device.h"
#include "convoy/comm/to_host.h"
#include "convoy/models/bert/bert_text.h"
#include "convoy/models/decoder/decoder.h"
#include "convoy/models/gpt2/gpt2.h"
#include "convoy/models/t5/t5.h"
#include "convoy/models/wrapper.h"
#include "convoy/nn/attention/kv_cache.h"
#include "convoy/nn/documents.h"

namespace convoy::models {

namespace {

using Make = std::unique_ptr<LanguageModelConfig> (*)();

template <const DecoderFamily* family>
std::unique_ptr<LanguageModelConfig> decoder() {
  return std::make_unique<DecoderConfig>(*family);
}

std::map<std::string, Make>& families() {
  static std::map<std::string, Make> all{
      {"bert", [] { return std::unique_ptr<LanguageModelConfig>(new BertTextConfig()); }},
      {"gpt2", [] { return std::unique_ptr<LanguageModelConfig>(new Gpt2Config()); }},
      {"gemma2", decoder<&kGemma2>},
      {"gemma3_text", decoder<&kGemma3Text>},
      {"gemma4_text", decoder<&kGemma4Text>},
      {"gpt_oss", decoder<&kGptOss>},
      {"granite", decoder<&kGranite>},
      {"llama", decoder<&kLlama>},
      {"ministral3", decoder<&kMinistral3>},
      {"mistral", decoder<&kMistral>},
      {"mixtral", decoder<&kMixtral>},
      {"olmo2", decoder<&kOlmo2>},
      {"olmo3", decoder<&kOlmo3>},
      {"olmo_hybrid", decoder<&kOlmoHybrid>},
      {"olmoe", decoder<&kOlmoe>},
      {"phi3", decoder<&kPhi3>},
      {"qwen2", decoder<&kQwen2>},
      {"qwen2_moe", decoder<&kQwen2Moe>},
      {"qwen3", decoder<&kQwen3>},
      {"qwen3_5_moe_text", decoder<&kQwen35MoeText>},
      {"qwen3_5_text", decoder<&kQwen35Text>},
      {"qwen3_moe", decoder<&kQwen3Moe>},
      {"qwen3_next", decoder<&kQwen3Next>},
      {"smollm3", decoder<&kSmolLm3>},
      {"t5", [] { return std::unique_ptr<LanguageModelConfig>(new T5Config()); }}};
  return all;
}

/// Keys of any model that have no effect on logits and loss.
const auto kPassedOn = split(
    "_name_or_path architectures attn_output_gate auto_map chunk_size_feed_forward "
    "cross_attention_hidden_size dtype finetuning_task gradient_checkpointing id2label is_decoder "
    "label2id mamba_ssm_dtype model_type mtp_num_hidden_layers mtp_use_dedicated_embeddings "
    "n_ctx n_positions output_attentions output_hidden_states output_past "
    "predict_special_tokens pretraining_tp problem_type return_dict task_specific_params "
    "torch_dtype torchscript transformers_version use_cache",
    ' ');

/// Values by key with which a key has no effect on numbers.
using Harmless = std::map<std::string, std::vector<Json>>;

/// Keys of any model that change numbers in a way that is not supported here, with the values that
/// change none.
const Harmless kHarmless{{"add_cross_attention", {false, nullptr}},
                         {"is_encoder_decoder", {false, nullptr}},
                         {"partial_rotary_factor", {nullptr, 1}},
                         {"position_embedding_type", {nullptr, "absolute"}},
                         {"pruned_heads", {nullptr, Json::object(), Json::array()}},
                         {"quantization_config", {nullptr}},
                         {"tie_encoder_decoder", {false, nullptr}}};
/// Values of further keys that causal models may have.
const Harmless kHarmlessToCausal{{"is_causal", {true, nullptr}}};

void expect_object(const Json& json, const std::string& where) {
  if (json.is_object()) return;
  fail<FileError>("models", "{} is {}; expected an object", where, json.type_name());
}

/// Throws FileError on weights that a command can make readable.
void refuse_quantized(const Json& json, const std::string& where) {
  const auto quantized = json.value("quantization_config", Json());
  if (!quantized.is_object() || quantized.value("quant_method", Json()) != "mxfp4") return;
  fail<FileError>("models",
                  "{}: quantization_config says that weights are MXFP4; try convoy checkpoint "
                  "dequantize FOLDER --output NEW_FOLDER first",
                  where);
}

void refuse_all_but(const Harmless& values, const Json& json, const std::string& where) {
  for (const auto& [key, harmless] : values) {
    auto found = json.find(key);
    if (found == json.end()) continue;
    if (std::find(harmless.begin(), harmless.end(), *found) == harmless.end()) {
      fail<FileError>("models", "{}: {} = {} is not supported; expected {}", where, key,
                      found->dump(), harmless.front().dump());
    }
  }
}

}  // namespace

std::vector<std::string> language_families() {
  std::vector<std::string> names;
  for (const auto& [name, make] : families()) names.push_back(name);
  return names;
}

void add_family(const std::string& family, Make make) {
  const bool added = families().emplace(family, make).second;
  internal_check(added, "models", "there is a model family {} already", family);
}

std::unique_ptr<LanguageModelConfig> make_model_config(const std::string& family) {
  auto found = families().find(family);
  if (found != families().end()) return found->second();
  fail<UsageError>("models", "model family '{}' is unknown; expected one of {}{}", family,
                   join(language_families()), did_you_mean(family, language_families()));
}

std::unique_ptr<LanguageModelConfig> read_model_config(const Json& json, const std::string& where) {
  expect_object(json, where);
  const auto family = family_of(json, where);
  if (family.empty()) {
    fail<FileError>("models", "{}: model_type is missing; expected one of {}", where,
                    join(language_families()));
  }
  if (!families().contains(family)) {
    const bool is_text = wrapper_of(json, where) != nullptr;
    fail<FileError>("models", "{} describes a model{} of type {}; expected one of {}", where,
                    is_text ? " whose text part is" : "", Json(family).dump(),
                    join(language_families()));
  }
  auto config = make_model_config(family);
  config->read(json, where);
  return config;
}

void LanguageModelConfig::take_wrapper(const Json& json, const std::string& where) {
  wrapper_ = wrapper_of(json, where);
  around_ = Json();
  if (wrapper_ == nullptr) return;
  if (!may_be_wrapped()) {
    fail<FileError>("models", "{} describes a {} with a text part of type {}; expected a decoder",
                    where, wrapper_->model_type, family());
  }
  around_ = json;
  around_.erase(kTextConfig);
  refuse_all_but(kHarmless, around_, where);
}

void LanguageModelConfig::read(const Json& json, const std::string& where) {
  expect_object(json, where);
  take_wrapper(json, where);
  const auto text = wrapper_ == nullptr ? json : text_config_of(*wrapper_, json);
  const auto place = wrapper_ == nullptr ? where : where + ": " + kTextConfig;
  const auto type = text.value("model_type", Json(family()));
  if (type != family()) {
    fail<FileError>("models", "{} describes a model of type {}; expected {}", place, type.dump(),
                    family());
  }
  others_ = text;
  unknown_.clear();
  take_fields(others_, fields(), place);
  take_others(others_, place);
  refuse_quantized(others_, place);
  refuse_all_but(kHarmless, others_, place);
  if (objective() == Objective::NextToken) refuse_all_but(kHarmlessToCausal, others_, place);
  check_others(others_, place);
  for (const auto& [key, value] : others_.items()) {
    const bool known = std::find(kPassedOn.begin(), kPassedOn.end(), key) != kPassedOn.end();
    if (!known && !kHarmless.contains(key)) unknown_.push_back(key);
  }
  check();
}

void LanguageModelConfig::check() const {
  check_fields(const_cast<LanguageModelConfig*>(this)->fields());
  check_together();
}

Json LanguageModelConfig::to_json() const {
  Json out = others_;
  write_fields(out, const_cast<LanguageModelConfig*>(this)->fields());
  finish(out);
  out["model_type"] = family();
  if (wrapper_ != nullptr) out = wrapped(std::move(out));
  if (!out.contains("architectures")) out["architectures"] = {saved_architecture()};
  out["dtype"] = out["torch_dtype"] = "float32";
  return out;
}

Json LanguageModelConfig::wrapped(Json text) const {
  Json out = around_;
  out["tie_word_embeddings"] = text["tie_word_embeddings"];
  text["dtype"] = text["torch_dtype"] = "float32";
  out[kTextConfig] = std::move(text);
  return out;
}

std::string LanguageModelConfig::saved_architecture() const {
  return wrapper_ == nullptr ? architecture() : wrapper_->architecture;
}

Json LanguageModelConfig::value_of(const char* key) const {
  const auto all = to_json();
  if (all.contains(key) || wrapper_ == nullptr) return all.value(key, Json());
  return all.at(kTextConfig).value(key, Json());
}

double LanguageModelConfig::flops_of(const PositionsOf& positions, double wide_pairs) const {
  const auto blocks = make_blocks();
  double products = 0;
  for (size_t b = 1; b < blocks.size(); ++b) {  // the first looks its rows up
    for (const auto& param : blocks[b]->params()) {
      const auto& spec = param->spec();
      if (spec.shape.size() < 2 || spec.name.ends_with("bias")) continue;
      products += static_cast<double>(spec.num_elements()) *
                  positions(*blocks[b], spec, b + 1 == blocks.size());
    }
  }
  // Scores and mixture of each pair.
  return 3 * 2 * (products + 2 * wide_pairs);
}

double LanguageModelConfig::training_flops(int64_t length, int64_t asked) const {
  const auto positions = static_cast<double>(length);
  // Causality leaves half of the pairs.
  return flops_of(
      [&](const auto&, const auto&, bool) { return positions; },
      static_cast<double>(num_layers() * attention_width()) * positions * positions / 2);
}

int64_t LanguageModelConfig::width_on(const parallel::TensorPlace& place, int64_t heads,
                                      int64_t head_width) {
  const parallel::TensorCut cut{.dim = 0, .granule = head_width};
  return parallel::local_shape({heads * head_width}, cut, place)[0];
}

double cache_bytes(const LanguageModelConfig& config, int64_t rows, int64_t positions,
                   at::ScalarType dtype, const parallel::TensorPlace& place) {
  double kept = 0;    // elements of keys and values of a row, of all layers
  double states = 0;  // bytes of a row
  for (int64_t layer = 0; layer < config.num_layers(); ++layer) {
    if (const auto state = config.state_bytes(layer, dtype, place)) {
      states += *state;
      continue;
    }
    const auto room = nn::KvCache::room(positions, config.window_of(layer));
    kept += static_cast<double>(room) * 2 * static_cast<double>(config.key_width_on(layer, place));
  }
  const auto keys = static_cast<double>(at::elementSize(dtype)) * kept;
  return (keys + states) * static_cast<double>(rows);
}

void check_ids(const at::Tensor& ids, int64_t num_ids, const std::string& what, bool ignores) {
  if (!ids.is_cpu() || ids.numel() == 0) return;
  const auto [low, high] = at::aminmax(ignores ? ids.masked_fill(ids == kIgnored, 0) : ids);
  const auto least = comm::item<int64_t>(low), most = comm::item<int64_t>(high);
  if (least >= 0 && most < num_ids) return;
  fail<UsageError>("models",
                   "{} hold {}; expected 0 to {}, the model's vocabulary; try the tokenizer that "
                   "belongs to the model",
                   what, least < 0 ? least : most, num_ids - 1);
}

at::Tensor causal_targets(const nn::Bundle& in, int64_t num_ids) {
  const auto& ids = in.at("input_ids");
  const auto given = in.find("labels");
  auto labels = given != in.end() ? given->second : ids;
  auto targets = at::full_like(labels, kIgnored);
  const int64_t last = labels.size(1) - 1;
  targets.narrow(1, 0, last).copy_(labels.narrow(1, 1, last));
  if (const auto documents = nn::documents_of(in); documents.defined()) {
    const auto begins = documents.narrow(1, 1, last).ne(documents.narrow(1, 0, last));
    targets.narrow(1, 0, last).masked_fill_(begins, kIgnored);
    if (given == in.end()) targets.masked_fill_(documents < 0, kIgnored);
  }
  const auto mask = in.find("key_mask");
  if (given != in.end()) {
    check_ids(labels, num_ids, "labels", /*ignores=*/true);
  } else if (mask != in.end()) {
    auto both = mask->second.narrow(1, 0, last).logical_and(mask->second.narrow(1, 1, last));
    targets.narrow(1, 0, last).masked_fill_(both.logical_not(), kIgnored);
  }
  return targets;
}

nn::Bundle LanguageModelConfig::labelled(const nn::Bundle& batch,
                                         const nn::Context& /*context*/) const {
  auto out = batch;
  // Hugging Face's models keep documents apart by the positions, which begin anew.
  const bool has_documents = out.erase("documents") > 0;
  if (out.contains("labels") && !has_documents) return out;
  const auto targets = causal_targets(batch, num_ids());
  auto labels = at::full_like(targets, kIgnored);
  const int64_t last = labels.size(1) - 1;
  labels.narrow(1, 1, last).copy_(targets.narrow(1, 0, last));
  out["labels"] = labels;
  return out;
}

at::Tensor asked_of(const at::Tensor& targets) {
  return (targets.reshape({-1}) >= 0).nonzero().squeeze(1);  // on the host
}

void put_targets(nn::Bundle& out, const at::Tensor& targets, at::Device device) {
  const auto asked = asked_of(targets);
  out["targets"] = comm::upload(targets.reshape({-1}).index_select(0, asked), device);
  out["asked"] = comm::upload(asked, device);
}

}  // namespace convoy::models
