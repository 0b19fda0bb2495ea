#include <CLI/App.hpp>
#include <algorithm>
#include <map>
#include <memory>
#include <set>

#include "cli/commands.h"
#include "cli/program.h"
#include "cli/quoted.h"
#include "convoy/base/text.h"

namespace convoy::cli {

namespace {

/// Words that may be typed, by command.
struct Words {
  std::vector<std::string> commands;
  std::map<std::string, std::set<std::string>> flags;      ///< [command]
  std::map<std::string, std::vector<std::string>> values;  ///< [flag] where there are some
  std::map<std::string, std::string> help;                 ///< [flag or command], a line
};

std::string first_line(const std::string& text) {
  return text.substr(0, text.find('\n'));
}

/// Flags of a command and of those below it, which belong to its first word.
void add_flags(const CLI::App& command, const std::string& name, Words& words) {
  for (const auto* option : command.get_options()) {
    for (const auto& flag : option->get_lnames()) {
      words.flags[name].insert("--" + flag);
      words.help.try_emplace("--" + flag, first_line(option->get_description()));
    }
  }
  for (const auto* below : command.get_subcommands([](const CLI::App*) { return true; })) {
    add_flags(*below, name, words);
  }
}

/// Adds the options of a table by all of their names.
void add_options(const OptionTable& table, std::set<std::string>& flags, Words& words) {
  for (const auto& option : table.options()) {
    auto names = option.aliases;
    names.push_back(option.name);
    for (const auto& name : names) {
      flags.insert("--" + name);
      words.help.try_emplace("--" + name, first_line(option.help));
      if (!option.choices.empty()) words.values.try_emplace("--" + name, option.choices);
    }
  }
}

Words all_words(const CLI::App& program) {
  Words words;
  const auto families = tasks::families();
  words.values["--family"] = families;
  std::set<std::string> options, of_predict;
  for (const auto& family : families) {
    const auto task = tasks::find_task({"train", "--family", family}, /*opens=*/false);
    options::TrainingArguments training;
    OptionTable table, own;
    task->declare(table);
    training.declare(table);
    task->declare_predict(own);
    add_options(table, options, words);
    add_options(own, of_predict, words);
  }
  for (const auto* command : program.get_subcommands([](const CLI::App*) { return true; })) {
    const auto& name = command->get_name();
    words.commands.push_back(name);
    words.help[name] = first_line(command->get_description());
    add_flags(*command, name, words);
    for (const auto* below : command->get_subcommands([](const CLI::App*) { return true; })) {
      words.values[name].push_back(below->get_name());
    }
    if (find_command(name).reads == Reads::Nothing) continue;
    words.flags[name].insert(options.begin(), options.end());
    if (name == "predict") words.flags[name].insert(of_predict.begin(), of_predict.end());
  }
  return words;
}

std::string bash(const Words& words) {
  // `launch` takes its own options, then a command with the options of that command.
  std::string out =
      "_convoy() {\n"
      "  local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} words=\n"
      "  local command=${COMP_WORDS[1]} word\n"
      "  COMPREPLY=()\n";
  out += fmt::format(
      "  if [[ $command == launch ]]; then\n"
      "    for word in \"${{COMP_WORDS[@]:2:COMP_CWORD-2}}\"; do\n"
      "      case $word in {}) command=$word; break ;; esac\n"
      "    done\n  fi\n",
      join(words.commands, "|"));
  out += "  if ((COMP_CWORD == 1)); then\n";
  out += fmt::format("    words={}\n", quoted(join(words.commands, " ")));
  out += "  elif [[ $cur != -* ]]; then\n    case $prev in\n";
  for (const auto& [name, values] : words.values) {
    out += fmt::format("      {}) words={} ;;\n", name, quoted(join(values, " ")));
  }
  out += "    esac\n";
  out += fmt::format("    if [[ ! $words && $command == launch ]]; then words={}; fi\n",
                     quoted(join(words.commands, " ")));
  out += "  else\n    case $command in\n";
  for (const auto& [command, flags] : words.flags) {
    const std::vector<std::string> listed(flags.begin(), flags.end());
    out += fmt::format("      {}) words={} ;;\n", command, quoted(join(listed, " ")));
  }
  out +=
      "    esac\n  fi\n"
      "  mapfile -t COMPREPLY < <(compgen -W \"$words\" -- \"$cur\")\n"
      "  if [[ ! $words ]]; then mapfile -t COMPREPLY < <(compgen -f -- \"$cur\"); fi\n"
      "}\ncomplete -o filenames -F _convoy convoy\n";
  return out;
}

std::string zsh(const Words& words) {
  std::string out =
      "#compdef convoy\n_convoy() {\n  local prev=${words[CURRENT-1]}\n  local -a found\n"
      "  if ((CURRENT == 2)); then\n    found=(\n";
  const auto described = [&](const std::string& word) {
    std::string plain;
    for (const char c : word) plain += c == ':' ? std::string("\\:") : std::string(1, c);
    return quoted(plain + ":" + words.help.at(word));
  };
  for (const auto& name : words.commands) out += "      " + described(name) + "\n";
  out += "    )\n    _describe command found\n    return\n  fi\n";
  out += "  if [[ $PREFIX != -* ]]; then\n    case $prev in\n";
  for (const auto& [name, values] : words.values) {
    out += fmt::format("      {}) compadd -- {}; return ;;\n", name, join(values, " "));
  }
  out += fmt::format(
      "    esac\n    _files\n    return\n  fi\n  local command=${{words[2]}} word\n"
      "  if [[ $command == launch ]]; then\n"
      "    for word in ${{words[3,CURRENT-1]}}; do\n"
      "      case $word in {}) command=$word; break ;; esac\n"
      "    done\n  fi\n  case $command in\n",
      join(words.commands, "|"));
  for (const auto& [command, flags] : words.flags) {
    out += fmt::format("    {}) found=(\n", command);
    for (const auto& flag : flags) out += "      " + described(flag) + "\n";
    out += "    ) ;;\n";
  }
  out +=
      "  esac\n  _describe option found\n}\n"
      "if [[ $funcstack[1] == _convoy ]]; then _convoy; else compdef _convoy convoy; fi\n";
  return out;
}

std::string fish(const Words& words) {
  std::string out = "complete -c convoy -e\n";
  for (const auto& name : words.commands) {
    out += fmt::format("complete -c convoy -f -n __fish_use_subcommand -a {} -d {}\n", name,
                       quoted(words.help.at(name)));
  }
  for (const auto& [command, flags] : words.flags) {
    const auto below = words.values.find(command);
    const auto seen = fmt::format("-n '__fish_seen_subcommand_from {}'", command);
    if (below != words.values.end()) {
      out += fmt::format("complete -c convoy {} -a {}\n", seen, quoted(join(below->second, " ")));
    }
    for (const auto& flag : flags) {
      const auto values = words.values.find(flag);
      out += fmt::format(
          "complete -c convoy {} -l {}{} -d {}\n", seen, flag.substr(2),
          values == words.values.end() ? "" : " -x -a " + quoted(join(values->second, " ")),
          quoted(words.help.at(flag)));
    }
  }
  return out;
}

}  // namespace

void add_completion(CLI::App& app, RunCommand& run) {
  auto shell = std::make_shared<std::string>();
  auto* command = app.add_subcommand("completion", "Print a completion script for a shell");
  command->add_option("shell", *shell, "bash, zsh or fish")
      ->required()
      ->check(CLI::IsMember({"bash", "zsh", "fish"}));
  command->footer(
      "Examples:\n  source <(convoy completion bash)          # or from ~/.bashrc\n"
      "  source <(convoy completion zsh)           # after compinit, from ~/.zshrc\n"
      "  convoy completion fish | source\n");
  command->callback([shell, &app, &run] {
    run = [shell, &app] {
      const auto words = all_words(app);
      fmt::print("{}", *shell == "bash" ? bash(words) : *shell == "zsh" ? zsh(words) : fish(words));
      return 0;
    };
  });
}

}  // namespace convoy::cli
