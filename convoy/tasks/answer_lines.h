#pragma once

#include <functional>
#include <vector>

#include "convoy/base/json.h"
#include "convoy/tasks/task.h"

namespace convoy::tasks {

/// Throws UsageError where several ranks would each read the requests.
void check_answers_alone(int num_ranks);

/// Throws UsageError where anything else is asked for beside them.
void check_only_requests(const PredictionRequest& asked);

/// Calls `answer`; what it throws for a bad request is the answer: {"error": "..."}.
Json answer_or_error(const std::function<Json()>& answer);

/// Answers requests, a line of JSON each, from the standard input on the standard output, until
/// there are no more. What `answer` throws for a bad one is its answer, as answer_or_error() has
/// it.
void answer_lines(const std::function<Json(const Json& request)>& answer);

/// Answers several requests at once, like answer_lines(). `answer` gets those of the lines that
/// have arrived, at most `most` lines at a time, and gives an answer for each, errors too. No line
/// waits for another. The answer to a line that is a list of requests is the list of their answers.
/// A request's "id" is in its answer, too.
void answer_batches(
    size_t most, const std::function<std::vector<Json>(const std::vector<Json>& requests)>& answer);

}  // namespace convoy::tasks
