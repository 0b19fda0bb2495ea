#include "convoy/tasks/task.h"

#include "convoy/base/error.h"
#include "convoy/base/text.h"
#include "convoy/tasks/session/task.h"

namespace convoy::tasks {

namespace {

struct Entry {
  const char* name;
  std::unique_ptr<Task> (*make)();
};

template <class T>
std::unique_ptr<Task> make() {
  return std::make_unique<T>();
}

constexpr Entry kTasks[] = {{"session", make<SessionTask>}};

}  // namespace

std::vector<std::string> task_names() {
  std::vector<std::string> names;
  for (const auto& entry : kTasks) names.push_back(entry.name);
  return names;
}

std::unique_ptr<Task> make_task(const std::string& name) {
  for (const auto& entry : kTasks) {
    if (name == entry.name) return entry.make();
  }
  fail<UsageError>("tasks", "task '{}' is unknown; expected one of {}{}", name, join(task_names()),
                   did_you_mean(name, task_names()));
}

std::string find_task(const std::vector<std::string>&) {
  return "session";
}

}  // namespace convoy::tasks
