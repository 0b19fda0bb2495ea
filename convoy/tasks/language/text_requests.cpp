#include "convoy/tasks/language/text_requests.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "convoy/base/error.h"
#include "convoy/base/json_number.h"
#include "convoy/tasks/answer_lines.h"

namespace convoy::tasks {

namespace {

const char* expected_type(const std::string& key) {
  if (key == "prompt") return "text";
  if (key == "stop") return "a list of texts";
  if (key == "do_sample") return "true or false";
  if (key == "seed") return "a whole number of 0 to 9223372036854775807";
  return key == "temperature" || key == "top_p" ? "a number" : "a whole number";
}

[[noreturn]] void refuse_type(const std::string& key, const Json& value) {
  fail<UsageError>("generate", "\"{}\" is {}; expected {}", key, json_line(value),
                   expected_type(key));
}

void read_number(const std::string& key, const Json& value, int64_t& out) {
  const auto number = whole_number<int64_t>(value);
  if (!number) refuse_type(key, value);
  out = *number;
}

void read_number(const std::string& key, const Json& value, double& out) {
  const auto number = finite_number(value);
  if (!number) refuse_type(key, value);
  out = *number;
}

uint64_t read_seed(const Json& value) {
  const auto seed = whole_number<int64_t>(value);
  if (!seed || *seed < 0) refuse_type("seed", value);
  return static_cast<uint64_t>(*seed);
}

/// Name of an option, "top-k", as the command line or a request spells it.
std::string spelled(std::string name, bool in_request) {
  if (!in_request) return "--" + name;
  std::replace(name.begin(), name.end(), '-', '_');
  return '"' + name + '"';
}

}  // namespace

const char* ended_name(Ended ended) {
  static constexpr const char* kNames[] = {"length", "end", "stop", "context"};
  return kNames[static_cast<int>(ended)];
}

void check(const GenerateOptions& options, const std::vector<std::string>& stops, bool in_request) {
  const auto refuse = [&](const char* name, const auto& value, const char* expected) {
    fail<UsageError>("tasks", "{} = {}; expected {}", spelled(name, in_request), value, expected);
  };
  if (options.max_new_tokens < 1 || options.max_new_tokens > kMostNewTokens) {
    refuse("max-new-tokens", options.max_new_tokens, "1 to 100000000");
  }
  if (!(options.temperature > 0 && std::isfinite(options.temperature))) {
    refuse("temperature", options.temperature, "more than 0; without it the best token is taken");
  }
  if (options.top_k < 0) refuse("top-k", options.top_k, "at least 0");
  if (!(options.top_p > 0 && options.top_p <= 1)) {
    refuse("top-p", options.top_p, "more than 0 and at most 1");
  }
  if (options.batch_size < 1) refuse("batch-size", options.batch_size, "at least 1");
  for (const auto& stop : stops) {
    if (stop.empty()) refuse("stop", "''", "some text; without it a text ends by itself");
  }
}

void TextRequest::read_json(const Json& json) {
  if (!json.is_object() || !json.contains("prompt")) {
    fail<UsageError>("generate",
                     "a request is {}; expected an object such as {{\"prompt\": \"a\"}}",
                     json_line(json));
  }
  const bool greedy = json.contains("do_sample") && json["do_sample"] == false;
  for (const auto& [key, value] : json.items()) {
    try {
      if (key == "prompt") {
        prompt = value.get<std::string>();
      } else if (key == "stop") {
        stops = value.get<std::vector<std::string>>();
      } else if (key == "do_sample") {
        options.sample = value.get<bool>();
      } else if (key == "max_new_tokens") {
        read_number(key, value, options.max_new_tokens);
      } else if (key == "seed") {
        options.seed = read_seed(value);
      } else if (key == "temperature" || key == "top_k" || key == "top_p") {
        if (greedy) {
          fail<UsageError>("generate", "\"{}\" has no effect with \"do_sample\": false", key);
        }
        options.sample = true;
        if (key == "temperature") read_number(key, value, options.temperature);
        if (key == "top_k") read_number(key, value, options.top_k);
        if (key == "top_p") read_number(key, value, options.top_p);
      } else {
        fail<UsageError>("generate",
                         "a request has the key \"{}\"; expected prompt, max_new_tokens, "
                         "do_sample, temperature, top_k, top_p, seed or stop",
                         key);
      }
    } catch (const Json::exception&) {
      refuse_type(key, value);
    }
  }
  check(options, stops, /*in_request=*/true);
}

void answer_requests(TextGenerator& texts, const TextRequest& defaults) {
  check_answers_alone(texts.num_ranks());
  texts.load();
  answer_lines([&](const Json& json) {
    auto request = defaults;
    request.read_json(json);
    const auto prompts = texts.encode({{request.prompt, "the prompt"}});
    Json answer;
    texts.generate(prompts, request.options, request.stops,
                   [&](const Generated& generated, const std::string& text) {
                     answer = {{"text", text},
                               {"tokens", generated.ids.size()},
                               {"ended", ended_name(generated.ended)}};
                   });
    return answer;
  });
}

}  // namespace convoy::tasks
