#pragma once

#include <functional>

#include "convoy/base/json.h"
#include "convoy/tasks/task.h"

namespace convoy::tasks {

/// Throws UsageError where several ranks would each read the requests.
void check_answers_alone(int num_ranks);

/// Throws UsageError where anything else is asked for beside them.
void check_only_requests(const Prediction& asked);

/// Answers requests, a line of JSON each, from the standard input on the standard output, until
/// there are no more. What `answer` throws for a bad one is its answer: {"error": "..."}.
void answer_lines(const std::function<Json(const Json& request)>& answer);

}  // namespace convoy::tasks
