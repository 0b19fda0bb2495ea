#include "cli/piped_inputs.h"

#include <algorithm>

#include "convoy/base/error.h"
#include "convoy/base/piped_input.h"
#include "convoy/launch/environment.h"

namespace convoy::cli {

namespace {

std::string read_once(const std::string& option, const std::string& value) {
  if (!is_piped(value)) return value;
  if (launch::detect_environment().world_size > 1) {
    fail<UsageError>("cli",
                     "{} {} is no file, and only one of the ranks could read it; try a file, or "
                     "--nproc instead of a launcher",
                     option, value);
  }
  return lasting_input(value);
}

}  // namespace

std::vector<std::string> with_lasting_inputs(std::vector<std::string> typed) {
  const auto asks = [&](const char* word) {
    return std::find(typed.begin(), typed.end(), word) != typed.end();
  };
  const std::string command = typed.empty() ? "" : typed[0];
  const std::string option = command == "generate"                       ? "--file"
                             : command == "eval" || command == "predict" ? "--data"
                                                                         : "";
  if (option.empty() || asks("--help") || asks("-h")) return typed;
  for (size_t i = 1; i < typed.size() && typed[i] != "--"; ++i) {
    if (typed[i] == option && i + 1 < typed.size()) {
      typed[i + 1] = read_once(option, typed[i + 1]);
      ++i;
    } else if (typed[i].starts_with(option + "=")) {
      typed[i] = option + "=" + read_once(option, typed[i].substr(option.size() + 1));
    }
  }
  return typed;
}

}  // namespace convoy::cli
