#include "convoy/tasks/random_data.h"

#include <filesystem>

#include "convoy/base/text.h"

namespace convoy::tasks {

bool use_random_data(const std::string& file, const options::ParallelArguments& parallel,
                     int64_t length, std::vector<std::string>& notes) {
  const bool names_one = !file.empty() && file.find_first_of("*?[") == std::string::npos;
  if (!parallel.data_may_be_random || !names_one || std::filesystem::exists(file)) return false;
  notes.push_back(fmt::format("{} is not there: random rows are used instead, each of {}", file,
                              plural(length, "position")));
  return true;
}

}  // namespace convoy::tasks
