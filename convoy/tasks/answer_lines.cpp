#include "convoy/tasks/answer_lines.h"

#include <fmt/format.h>

#include <cstdio>
#include <iostream>
#include <string>

#include "convoy/base/error.h"
#include "convoy/base/text.h"

namespace convoy::tasks {

void check_answers_alone(int num_ranks) {
  if (num_ranks == 1) return;
  fail<UsageError>("tasks", "--requests are answered by one rank; try without --nproc");
}

void check_only_requests(const Prediction& asked) {
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

void answer_lines(const std::function<Json(const Json& request)>& answer) {
  for (std::string line; std::getline(std::cin, line);) {
    Json out;
    try {
      out = answer(parse_json(line, "a request"));
    } catch (const NumericError& error) {  // the model is at fault, not the request
      out = {{"error", error.what()}, {"kind", "NumericError"}};
    } catch (const Error& error) {
      out = {{"error", error.what()}};
    }
    fmt::print("{}\n", json_line(out));
    std::fflush(stdout);
  }
}

}  // namespace convoy::tasks
