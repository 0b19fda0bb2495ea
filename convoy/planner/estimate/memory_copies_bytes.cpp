#include "convoy/planner/estimate/memory_copies_bytes.h"

#include <algorithm>

namespace convoy::planner {

int64_t bytes_of_memory_copies(const parallel::ModelDecl& model,
                               const options::TrainingArguments& arguments) {
  constexpr int64_t kCopies = 2;
  if (arguments.memory_copy_steps.value_or(0) == 0) return 0;
  const auto& params = model.params;
  // A checkpoint of adapters lacks their base.
  const bool has_adapter = std::ranges::any_of(params, [](const auto& param) {
    return param.trained && param.name.find(".lora_") != std::string::npos;
  });
  const int64_t master = sizeof(float);
  const int64_t frozen = has_adapter ? 0 : arguments.parallel.low_precision ? 2 : master;
  int64_t out = 0;
  for (const auto& param : params) {
    const int64_t bytes = param.trained ? master + arguments.parallel.state_bytes : frozen;
    out += kCopies * bytes * parallel::num_elements(param.shape);
  }
  return out;
}

}  // namespace convoy::planner
