#include "cli/typed.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <initializer_list>
#include <string_view>

#include "cli/commands.h"
#include "convoy/base/error.h"
#include "convoy/base/piped_input.h"
#include "convoy/launch/environment.h"
#include "convoy/tasks/task.h"

namespace convoy::cli {

namespace {

std::vector<std::string> typed_words;
bool all_options = false;

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

const std::vector<std::string>& typed_args() {
  return typed_words;
}
void set_typed_args(std::vector<std::string> args) {
  typed_words = std::move(args);
}

void take_help_all(std::vector<std::string>& args) {
  for (size_t i = 0; i + 1 < args.size() && args[i] != "--"; ++i) {
    if ((args[i] != "--help" && args[i] != "-h") || args[i + 1] != "all") continue;
    all_options = true;
    args.erase(args.begin() + static_cast<std::ptrdiff_t>(i) + 1);
    return;
  }
}

bool help_all() {
  return all_options;
}

std::vector<std::string> keep_double_dash(std::vector<std::string> args) {
  if (!args.empty() && args.front() == "launch") {
    std::replace(args.begin(), args.end(), std::string("--"), std::string(kDoubleDash));
  }
  return args;
}

std::vector<std::string> with_model_folder(std::vector<std::string> typed) {
  const bool takes_folder = !typed.empty() && find_command(typed[0]).takes_folder;
  if (!takes_folder || typed.size() < 2 || typed[1].starts_with("-")) return typed;
  auto place = std::filesystem::absolute(typed[1]);
  const bool is_file = place.filename() == "config.json";
  if (is_file) place = place.parent_path();
  std::error_code error;
  const auto run = place / "run.toml";
  const bool has_run = std::filesystem::exists(run, error);
  const bool has_model = std::filesystem::is_regular_file(place / "config.json", error);
  if (is_file && !has_model) return typed;
  if (has_run && (!is_file || tasks::needs_own_data(place / "config.json"))) {
    typed[1] = run.string();
    return typed;
  }
  if (!has_model) return typed;
  const auto says = [&](std::initializer_list<std::string_view> options) {
    return std::any_of(typed.begin(), typed.end(), [&](const std::string& word) {
      const auto name = std::string_view(word).substr(0, word.find('='));
      return std::any_of(options.begin(), options.end(), [&](const auto option) {
        return name == fmt::format("--{}", option) || name == fmt::format("--data.{}", option);
      });
    });
  };
  typed[1] = "--model.config_name=" + place.string();
  if (!says({"random_tokens", "train", "train_file", "valid", "validation_file", "path"})) {
    typed.emplace_back("--data.random_tokens=1000000");
  }
  return typed;
}

std::vector<std::string> with_lasting_inputs(std::vector<std::string> typed) {
  const auto asks = [&](const char* word) {
    return std::find(typed.begin(), typed.end(), word) != typed.end();
  };
  const std::string option(typed.empty() ? "" : find_command(typed[0]).input);
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
