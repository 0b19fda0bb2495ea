#include "convoy/tasks/answer_lines.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <iostream>
#include <span>
#include <string>

#include "convoy/base/arrived_lines.h"
#include "convoy/base/error.h"
#include "convoy/base/text.h"

namespace convoy::tasks {

namespace {

/// Range of a line's requests among all.
struct RequestLine {
  bool is_list = false;
  size_t first = 0, count = 0;
  Json error;  ///< the answer to a line that is no JSON
};

/// Adds the requests of a line to `requests`.
RequestLine read_line(const std::string& text, std::vector<Json>& requests) {
  RequestLine out{false, requests.size(), 0, {}};
  Json parsed;
  out.error = answer_or_error([&]() -> Json {
    parsed = parse_json(text, "a request");
    return {};
  });
  if (!out.error.is_null()) return out;
  out.is_list = parsed.is_array();
  if (out.is_list) {
    for (auto& request : parsed) requests.push_back(std::move(request));
  } else {
    requests.push_back(std::move(parsed));
  }
  out.count = requests.size() - out.first;
  return out;
}

}  // namespace

void check_answers_alone(int num_ranks) {
  if (num_ranks == 1) return;
  fail<UsageError>("tasks", "--requests are answered by one rank; try without --nproc");
}

void check_only_requests(const PredictionRequest& asked) {
  for (const auto& [name, given] :
       {std::pair{"--data", !asked.data.empty()}, std::pair{"--output", !asked.output.empty()},
        std::pair{"--rows", asked.rows > 0}}) {
    if (!given) continue;
    fail<UsageError>("tasks",
                     "{} has no effect with --requests, which come from the standard input and are "
                     "answered on the standard output",
                     name);
  }
}

Json answer_or_error(const std::function<Json()>& answer) {
  try {
    return answer();
  } catch (const NumericError& error) {  // the model is at fault, not the request
    return {{"error", error.what()}, {"kind", "NumericError"}};
  } catch (const Error& error) {
    return {{"error", error.what()}};
  }
}

void answer_lines(const std::function<Json(const Json& request)>& answer) {
  for (std::string line; std::getline(std::cin, line);) {
    const auto out = answer_or_error([&] { return answer(parse_json(line, "a request")); });
    fmt::print("{}\n", json_line(out));
    std::fflush(stdout);
  }
}

void answer_batches(
    size_t most,
    const std::function<std::vector<Json>(const std::vector<Json>& requests)>& answer) {
  ArrivedLines input(STDIN_FILENO);
  for (auto texts = input.next(most); !texts.empty(); texts = input.next(most)) {
    std::vector<RequestLine> lines;
    std::vector<Json> requests;
    for (const auto& text : texts) lines.push_back(read_line(text, requests));
    auto answers = answer(requests);
    for (size_t i = 0; i < requests.size(); ++i) {
      const bool named = requests[i].is_object() && requests[i].contains("id");
      if (named) answers[i]["id"] = requests[i]["id"];
    }
    for (const auto& line : lines) {
      const std::span own(answers.data() + line.first, line.count);
      const auto out = line.is_list           ? Json(Json::array_t(own.begin(), own.end()))
                       : line.error.is_null() ? own.front()
                                              : line.error;
      fmt::print("{}\n", json_line(out));
    }
    std::fflush(stdout);
  }
}

}  // namespace convoy::tasks
