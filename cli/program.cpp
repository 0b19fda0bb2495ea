#include "cli/program.h"

#include <algorithm>

namespace convoy::cli {

namespace {

std::vector<std::string>& stored_args() {
  static std::vector<std::string> args;
  return args;
}

}  // namespace

const std::vector<std::string>& typed_args() {
  return stored_args();
}
void set_typed_args(std::vector<std::string> args) {
  stored_args() = std::move(args);
}

bool takes_config(const std::vector<std::string>& args) {
  const std::vector<std::string> commands{"train", "eval", "predict", "bench"};
  return !args.empty() && std::find(commands.begin(), commands.end(), args[0]) != commands.end();
}

Configured::Configured() : task(tasks::make_task(tasks::find_task(typed_args()))) {
  task->declare(table);
  training.declare(table);
}

std::unique_ptr<Configured> read_config(const std::string& file) {
  auto out = std::make_unique<Configured>();
  if (!file.empty()) out->table.read_toml(file);
  out->table.take_overrides(typed_args());
  out->task->settle(out->table);
  out->table.check();
  out->training.check_effect(out->table);
  return out;
}

}  // namespace convoy::cli
