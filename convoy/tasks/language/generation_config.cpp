#include "convoy/tasks/language/generation_config.h"

#include <fmt/format.h>

#include <concepts>
#include <map>

#include "convoy/base/error.h"
#include "convoy/base/json_number.h"
#include "convoy/base/text.h"

namespace convoy::tasks {

namespace {

/// Keys that do not change texts here, or are read elsewhere. There is no beam search.
const std::set<std::string> kHarmless{"bos_token_id",
                                      "cache_config",
                                      "cache_implementation",
                                      "compile_config",
                                      "continuous_batching_config",
                                      "decoder_start_token_id",
                                      "disable_compile",
                                      "early_stopping",
                                      "eos_token_id",
                                      "is_assistant",
                                      "length_penalty",
                                      "low_memory",
                                      "output_attentions",
                                      "output_hidden_states",
                                      "output_logits",
                                      "output_scores",
                                      "pad_token_id",
                                      "prefill_chunk_size",
                                      "return_dict_in_generate",
                                      "return_legacy_cache",
                                      "transformers_version",
                                      "use_cache"};

/// Values with which a key has no effect, besides null, false, 0 and empty ones.
const std::map<std::string, double> kNeutral{
    {"encoder_repetition_penalty", 1},
    {"guidance_scale", 1},
    {"max_length", 20},
    {"num_beam_groups", 1},
    {"num_beams", 1},
    {"num_return_sequences", 1},
    {"repetition_penalty", 1},
    {"typical_p", 1},
};

bool is_neutral(const std::string& key, const Json& value) {
  const auto known = kNeutral.find(key);
  if (value.is_number() && known != kNeutral.end()) return finite_number(value) == known->second;
  return value.is_null() || value == false || value == 0 || value == "" ||
         (value.is_structured() && value.empty());
}

class Taker {
 public:
  Taker(const GenerationConfig& config, const std::set<std::string>& typed)
      : config_(config), typed_(typed) {}

  /// Value of a key; null where the option was typed or the key is missing.
  Json value(const std::string& key) {
    known_.insert(key);
    return typed_.contains(key) ? Json() : config_.json.value(key, Json());
  }

  template <class T, class Fits>
  void number(const std::string& key, T& target, const char* expected, const Fits& fits) {
    const auto said = value(key);
    if (said.is_null()) return;
    const auto number = read<T>(said);
    if (!number || !fits(*number)) refuse(key, said, expected);
    target = *number;
    taken(key, said);
  }

  template <class T>
  static std::optional<T> read(const Json& value) {
    if constexpr (std::integral<T>) {
      return whole_number<T>(value);
    } else {
      return finite_number(value);
    }
  }

  void taken(const std::string& key, const Json& value) {
    taken_.push_back(fmt::format("{} = {}", key, value.dump()));
  }
  [[noreturn]] void refuse(const std::string& key, const Json& value, const char* expected) const {
    fail<FileError>("tasks", "{}: {} = {}; expected {}", config_.file, key, value.dump(), expected);
  }

  std::vector<std::string> notes(const std::string& more) const {
    std::vector<std::string> out;
    if (!taken_.empty()) {
      out.push_back(fmt::format("{} says {}{}", config_.file, join(taken_), more));
    }
    std::vector<std::string> lacking;
    for (const auto& [key, value] : config_.json.items()) {
      if (known_.contains(key) || kHarmless.contains(key) || key.starts_with("_") ||
          is_neutral(key, value)) {
        continue;
      }
      lacking.push_back(fmt::format("{} = {}", key, value.dump()));
    }
    if (!lacking.empty()) {
      out.push_back(fmt::format("warning: {} asks for what generate does not do: {}", config_.file,
                                join(lacking)));
    }
    return out;
  }

 private:
  const GenerationConfig& config_;
  const std::set<std::string>& typed_;
  std::set<std::string> known_;
  std::vector<std::string> taken_;
};

}  // namespace

std::vector<std::string> GenerationConfig::take(const std::set<std::string>& typed,
                                                GenerateOptions& options,
                                                std::vector<std::string>& stops) const {
  Taker taker(*this, typed);
  taker.number("max_new_tokens", options.max_new_tokens, "1 to 100000000",
               [](int64_t n) { return n >= 1 && n <= kMostNewTokens; });
  const auto stop = taker.value("stop_strings");
  for (const auto& text : stop.is_structured() ? stop : Json::array({stop})) {
    if (stop.is_null()) break;
    if (!text.is_string() || text == "") taker.refuse("stop_strings", stop, "texts");
    stops.push_back(text.get<std::string>());
  }
  if (!stop.is_null()) taker.taken("stop_strings", stop);
  const auto sample = taker.value("do_sample");
  if (!sample.is_null() && !sample.is_boolean()) taker.refuse("do_sample", sample, "true or false");
  const bool draws = sample == true;
  if (draws) {
    options.sample = true;
    taker.taken("do_sample", sample);
  }
  const bool says_top_k = !taker.value("top_k").is_null();
  if (options.sample) {
    taker.number("temperature", options.temperature, "more than 0", [](double t) { return t > 0; });
    taker.number("top_k", options.top_k, "at least 0", [](int64_t k) { return k >= 0; });
    taker.number("top_p", options.top_p, "more than 0 and at most 1",
                 [](double p) { return p > 0 && p <= 1; });
  } else {  // they have no effect
    for (const char* key : {"temperature", "top_k", "top_p"}) taker.value(key);
  }
  const bool by_default = draws && !says_top_k && !typed.contains("top_k");
  return taker.notes(
      draws ? fmt::format("{}; --do-sample=false takes the best token each time",
                          by_default ? fmt::format("; top_k is {} by default", options.top_k) : "")
            : "");
}

}  // namespace convoy::tasks
