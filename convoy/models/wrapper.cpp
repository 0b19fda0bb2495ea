#include "convoy/models/wrapper.h"

#include <algorithm>
#include <map>

#include "convoy/base/error.h"
#include "convoy/base/text.h"

namespace convoy::models {

namespace {

constexpr const char* kTied = "tie_word_embeddings";

const std::vector<Wrapper>& wrappers() {
  static const std::vector<std::pair<std::string, std::string>> kSpellings{
      {"language_model.model.", kTextBody}, {"language_model.lm_head.", "lm_head."}};
  static const std::vector<std::string> kVision{"vision_tower.", "multi_modal_projector."};
  static const std::vector<Wrapper> kAll{{.model_type = "gemma3",
                                          .architecture = "Gemma3ForConditionalGeneration",
                                          .usual_text = "gemma3_text",
                                          .spellings = kSpellings,
                                          .others = kVision,
                                          .caps_logits = false},
                                         {.model_type = "gemma4",
                                          .architecture = "Gemma4ForConditionalGeneration",
                                          .usual_text = "gemma4_text",
                                          .spellings = kSpellings,
                                          .others = {"vision_tower.", "embed_vision."},
                                          .may_lack = {"audio_tower.", "embed_audio."}},
                                         {.model_type = "mistral3",
                                          .architecture = "Mistral3ForConditionalGeneration",
                                          .usual_text = "mistral",
                                          .spellings = kSpellings,
                                          .others = kVision},
                                         {.model_type = "qwen3_5",
                                          .architecture = "Qwen3_5ForConditionalGeneration",
                                          .usual_text = "qwen3_5_text",
                                          .usual_tied = false,
                                          .spellings = kSpellings,
                                          .others = {"visual."},
                                          .may_lack = {"mtp."}},
                                         {.model_type = "qwen3_5_moe",
                                          .architecture = "Qwen3_5MoeForConditionalGeneration",
                                          .usual_text = "qwen3_5_moe_text",
                                          .usual_tied = false,
                                          .spellings = kSpellings,
                                          .others = {"visual."},
                                          .may_lack = {"mtp."}}};
  return kAll;
}

/// Unsupported wrappers, with the reason.
const std::map<std::string, std::string>& refused() {
  static const std::string kPositions =
      "turns queries and keys by three positions of each token (mrope)";
  static const std::map<std::string, std::string> kRefused{{"qwen2_vl", kPositions},
                                                           {"qwen2_5_vl", kPositions},
                                                           {"qwen3_vl", kPositions},
                                                           {"qwen2_5_omni", kPositions}};
  return kRefused;
}

std::string known_wrappers() {
  std::vector<std::string> names;
  for (const auto& one : wrappers()) names.emplace_back(one.model_type);
  return join(names);
}

}  // namespace

const Wrapper* wrapper_of(const Json& config, const std::string& where) {
  if (!config.is_object()) return nullptr;
  const auto type = text_of(config, "model_type");
  if (const auto found = refused().find(type); found != refused().end()) {
    fail<FileError>("models",
                    "{} describes a {}, which {}: that is not supported; expected a language "
                    "model, or one inside a model of type {}",
                    where, type, found->second, known_wrappers());
  }
  const auto& all = wrappers();
  const auto found =
      std::find_if(all.begin(), all.end(), [&](const auto& one) { return one.model_type == type; });
  const auto text = config.find(kTextConfig);
  const bool has_text = text != config.end() && text->is_object();
  if (found == all.end()) {
    if (!has_text) return nullptr;
    fail<FileError>(
        "models",
        "{} describes a model of type {} around a language model; only the text part of "
        "{} can be read",
        where, type.empty() ? "null" : type, known_wrappers());
  }
  if (has_text) return &*found;
  fail<FileError>("models", "{} describes a {} without a {}; expected the config of its text part",
                  where, type, kTextConfig);
}

Json text_config_of(const Wrapper& wrapper, const Json& config) {
  auto out = config.at(kTextConfig);
  if (!out.contains("model_type")) out["model_type"] = wrapper.usual_text;
  out[kTied] = config.value(kTied, Json(wrapper.usual_tied));
  return out;
}

std::string family_of(const Json& config, const std::string& where) {
  const auto* wrapper = wrapper_of(config, where);
  return text_of(wrapper == nullptr ? config : text_config_of(*wrapper, config), "model_type");
}

std::vector<std::string> beginnings_of_others(const Wrapper& wrapper) {
  std::vector<std::string> out;
  for (const auto* parts : {&wrapper.others, &wrapper.may_lack}) {
    for (const auto& part : *parts) {
      out.push_back(part);
      out.push_back("model." + part);
    }
  }
  return out;
}

}  // namespace convoy::models
