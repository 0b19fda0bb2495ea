#pragma once

#include <string>
#include <vector>

#include "convoy/base/json.h"
#include "convoy/tasks/language/text_generator.h"

namespace convoy::tasks {

/// A request for a text; its initial values hold where the request is silent.
struct TextRequest {
  GenerateOptions options;
  std::vector<std::string> stops;
  std::string prompt = {};

  /// {"prompt": "...", "max_new_tokens": 50, "do_sample": true, "temperature": 1, "top_k": 50,
  /// "top_p": 1, "seed": 42, "stop": ["..."]}, all but the first of which may be left out. Throws
  /// UsageError for anything else.
  void read_json(const Json& json);
};

/// "length", "end", "stop" or "context".
const char* ended_name(Ended ended);

/// Throws UsageError for options that make no sense, by the names of the command line; `in_request`
/// by a request's: "max_new_tokens" rather than --max-new-tokens.
void check(const GenerateOptions& options, const std::vector<std::string>& stops,
           bool in_request = false);

/// Answers requests, a line of JSON each, from the standard input on the standard output, until
/// there are no more: {"text", "tokens", "ended"}, or {"error"} for a bad one. On one rank.
void answer_requests(TextGenerator& texts, const TextRequest& defaults);

}  // namespace convoy::tasks
