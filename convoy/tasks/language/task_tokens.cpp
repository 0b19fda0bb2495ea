#include "convoy/base/error.h"
#include "convoy/base/files.h"
#include "convoy/base/json_number.h"
#include "convoy/tasks/language/task.h"

// Tokens that mean something to a language model: those that end or begin a text, and those that
// stand for what is hidden.
namespace convoy::tasks {
namespace fs = std::filesystem;

using models::Objective;

namespace {

constexpr const char* kEnds = "eos_token_id";

/// Returns the ids of eos_token_id in `file`, which may be one, a list, or none.
std::vector<int32_t> ids_of_ends(const Json& said, const std::string& file) {
  if (said.is_null()) return {};
  std::vector<int32_t> ids;
  for (const auto& one : said.is_array() ? said : Json::array({said})) {
    const auto id = whole_number<int32_t>(one);
    if (!id || *id < 0) {
      fail<FileError>("tasks", "{}: {} = {}; expected an id, or a list of ids", file, kEnds,
                      said.dump());
    }
    ids.push_back(*id);
  }
  return ids;
}

}  // namespace

const tokenizers::Tokenizer& LanguageTask::tokenizer() {
  if (!tokenizer_) tokenizer_ = find_tokenizer();
  if (!tokenizer_) {
    fail<UsageError>("tasks", "{} holds no tokenizer; try --data.tokenizer FOLDER",
                     opened_.string());
  }
  return *tokenizer_;
}

GenerationConfig LanguageTask::generation_config() const {
  GenerationConfig out;
  if (opened_.empty()) return out;
  const auto file = opened_ / kGenerationConfig;
  out.file = file.string();
  if (!fs::exists(file)) return out;
  out.json = parse_json(read_file(file), out.file);
  if (!out.json.is_object()) {
    fail<FileError>("tasks", "{} holds {}; expected an object", out.file, out.json.type_name());
  }
  return out;
}

std::vector<int32_t> LanguageTask::end_ids() const {
  const auto generation = generation_config();
  auto of_config = ids_of_ends(config_->value_of(kEnds), (opened_ / "config.json").string());
  if (generation.json.contains(kEnds)) return ids_of_ends(generation.json[kEnds], generation.file);
  return of_config;
}

std::optional<int32_t> LanguageTask::text_end() const {
  const auto place = opened_.empty() ? fs::path(start_) : opened_;
  const auto ids = ids_of_ends(config_->value_of(kEnds), (place / "config.json").string());
  return ids.empty() ? std::nullopt : std::optional(ids[0]);
}

std::optional<int64_t> LanguageTask::start_id() const {
  const auto usual = config_->start_id();
  if (!usual) return usual;
  const char* key = "decoder_start_token_id";
  const auto generation = generation_config();
  const auto said = generation.json.value(key, Json());
  if (said.is_null()) return usual;
  const auto id = whole_number<int32_t>(said);
  if (!id || *id < 0 || *id >= config_->num_ids()) {
    fail<FileError>("tasks", "{}: {} = {}; expected an id of the model, 0 to {}", generation.file,
                    key, said.dump(), config_->num_ids() - 1);
  }
  return *id;
}

masking::TextMasking LanguageTask::masking() const {
  masking::TextMasking out;
  out.probability = data_.mlm_probability;
  if (!learns(Objective::HiddenTokens) || !tokenizer_) return out;
  const auto id_of = [&](const std::string& token) {
    const auto id = tokenizer_->id_of(token);
    if (id) return *id;
    fail<UsageError>("tasks", "the tokenizer has no token {}; expected one made for {}", token,
                     config_->family());
  };
  out.mask_id = id_of(config_->mask_token());
  for (const auto& token : config_->kept_tokens()) out.kept_ids.push_back(id_of(token));
  return out;
}

Sentinels LanguageTask::sentinels() const {
  if (!learns(Objective::Spans)) return {};
  return {config_->span_tokens(), tokenizer_ ? &*tokenizer_ : nullptr, config_->num_ids()};
}

masking::SpanCorruption LanguageTask::corruption() const {
  masking::SpanCorruption out;
  if (!learns(Objective::Spans)) return out;
  out.noise_density = data_.mlm_probability;
  out.mean_span_length = data_.mean_noise_span_length;
  out.sentinel_ids = sentinels().ids();
  if (const auto end = text_end()) out.end_id = *end;
  return out;
}

}  // namespace convoy::tasks
