#include "cli/program.h"

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <limits>
#include <map>

#include "cli/commands.h"
#include "cli/typed.h"
#include "convoy/base/error.h"
#include "convoy/base/text.h"
#include "convoy/checkpoint/contents.h"
#include "convoy/options/deepspeed.h"
#include "convoy/report/progress_output.h"
#include "convoy/tasks/unread_options.h"

namespace convoy::cli {

namespace {

/// Returns the column where the lines after the first of an entry begin: below its description.
size_t description_column(const std::string& line) {
  const size_t begin = line.find_first_not_of(' ');
  const size_t gap = begin == std::string::npos ? begin : line.find("  ", begin);
  if (begin == 0 || gap == std::string::npos) return begin == std::string::npos ? 0 : begin + 2;
  const size_t column = line.find_first_not_of(' ', gap);
  return column == std::string::npos || column > 60 ? begin + 2 : column;
}

/// Whether `--nproc` was typed: then each rank is a process, even a single one.
bool typed_nproc() {
  return std::any_of(typed_args().begin(), typed_args().end(), [](const std::string& word) {
    return word == "--nproc" || word.starts_with("--nproc=");
  });
}

bool opens_model(const std::vector<std::string>& args) {
  return !args.empty() && find_command(args[0]).reads == Reads::Model;
}

}  // namespace

CLI::Validator at_least(int64_t low) {
  return {[low](const std::string& text) {
            int64_t number = 0;
            const bool fits = parse_number(text, number) && number >= low;
            if (fits) return std::string();
            const bool is_too_large = !text.empty() &&
                                      text.find_first_not_of("0123456789") == std::string::npos &&
                                      !parse_number(text, number);
            if (is_too_large) {
              return fmt::format("got {}; expected at most {}", text,
                                 std::numeric_limits<int64_t>::max());
            }
            return fmt::format("got {}; expected a whole number of at least {}", text, low);
          },
          ""};
}

CLI::Validator above_zero() {
  return {[](const std::string& text) {
            double number = 0;
            const bool fits = parse_number(text, number) && number > 0;
            return fits ? std::string() : fmt::format("got {}; expected a number above 0", text);
          },
          ""};
}

CLI::Validator not_empty() {
  return {[](const std::string& text) {
            return text.empty() ? "got nothing; try without it" : std::string();
          },
          ""};
}

std::string fitted(const std::string& help) {
  std::string out;
  for (const auto& line : split(help, '\n')) out += wrap(line, description_column(line)) + "\n";
  out.pop_back();  // the text's own last line end made an empty line more
  return out;
}

bool takes_config(const std::vector<std::string>& args) {
  // `bench collectives` has a --device of its own, as it trains nothing.
  if (args.size() > 1 && args[0] == "bench" && args[1] == "collectives") return false;
  return !args.empty() && find_command(args[0]).reads != Reads::Nothing;
}

Configured::Configured() : task(tasks::find_task(typed_args(), opens_model(typed_args()))) {
  task->set_defaults(training);
  task->declare(table);
  training.declare(table);
  training.parallel.one_process_each = typed_nproc();
  if (!typed_args().empty() && typed_args()[0] == "predict") task->declare_predict(table);
}

void Configured::note_flags(tasks::Run& run) const {
  if (auto note = table.without_effect(); !note.empty()) run.notes->push_back(std::move(note));
  run.notes->insert(run.notes->end(), notes.begin(), notes.end());
}

Opened::Opened(const std::string& folder) : run(task->open(folder, table)) {
  training.parallel = {};  // how it was trained does not matter now
  training.parallel.one_process_each = typed_nproc();
  std::map<std::string, std::string> trained;
  for (const auto& option : table.options()) {
    if (option.section == "model") trained[option.key()] = option.plain();
  }
  table.take_overrides(typed_args());
  note_flags(run);
  const auto only = [&](const char* wanted, const char* other, bool& value) {
    const auto* option = table.find(wanted);
    const bool on = option->typed && option->plain() == "true";
    if (on && !table.find(other)->typed) value = false;
  };
  only("train.bf16", "train.fp16", training.fp16);
  only("train.fp16", "train.bf16", training.bf16);
  if (auto note = tasks::unread_options(table, folder, typed_args()[0]); !note.empty()) {
    run.notes->push_back(std::move(note));
  }
  auto note = checkpoint::tell_newer(folder);
  if (!note.empty() && std::ranges::find(*run.notes, note) == run.notes->end()) {
    run.notes->push_back(std::move(note));
  }
  for (const auto& [key, value] : trained) {
    const auto now = table.find(key)->plain();
    if (now == value) continue;
    fail<UsageError>("cli", "{} = {} has no effect: {} was trained with {}; try without --{}", key,
                     now, folder, value.empty() ? "none" : value, table.find(key)->name);
  }
  table.check();
  training.parallel.share(table);
}

std::vector<std::string> typed_overrides() {
  Configured scratch;
  scratch.table.take_overrides(typed_args());
  std::vector<std::string> out;
  for (const auto& option : scratch.table.options()) {
    if (!option.source.empty()) out.push_back("--" + option.key() + "=" + option.plain());
  }
  return out;
}

std::string of_other_families(const std::string& name, const OptionTable& typed) {
  const auto value = [](const OptionTable& table, const char* key) {
    const auto* option = table.find(key);
    return option == nullptr ? "" : option->plain();
  };
  const auto own = value(typed, "model.family");
  std::vector<std::string> families;
  std::string of_task;  // of the same family
  const auto look_at = [&](const std::string& family, const std::vector<std::string>& words) {
    OptionTable table;
    const auto task = tasks::find_task(words, /*opens=*/false);
    task->declare(table);
    if (table.find(name) == nullptr) return;
    if (family == own) {
      of_task = value(table, "model.task");
    } else if (std::find(families.begin(), families.end(), family) == families.end()) {
      families.push_back(family);
    }
  };
  for (const auto& family : tasks::families()) look_at(family, {"train", "--family", family});
  for (const auto& [task, family] : tasks::tasks_by_name()) {
    look_at(family, {"train", "--family", family, "--task", task});
  }
  if (!of_task.empty()) return ", which is of model.task = " + of_task;
  return families.empty() ? "" : ", which is of model.family = " + join(families);
}

std::string help_of_opened(const std::function<std::string(const tasks::Task&)>& examples) {
  const Configured scratch;
  const auto of = [&](const std::string& section) {
    return scratch.table.help_of([&](const Option& option) {
      const bool read = section == "predict" || tasks::read_without_training(option);
      return option.section == section && read;
    });
  };
  return of("predict") + of("train") + "\n" + examples(*scratch.task) + of("output") +
         of("parallel");
}

void tell(const std::vector<std::string>& notes) {
  for (const auto& note : notes) {
    report::show_progress(wrap(printable_lines(note), note.starts_with("warning: ") ? 9 : 2) + "\n",
                          stderr);
  }
}

std::unique_ptr<Configured> read_config(const std::string& file,
                                        const std::vector<std::string>& more) {
  auto out = std::make_unique<Configured>();
  std::error_code error;
  if (std::filesystem::is_directory(file, error)) {
    const auto run = std::filesystem::path(file) / "run.toml";
    if (std::filesystem::exists(run, error)) {
      fail<UsageError>("cli", "{} is the folder of a run; try {}", file, run.string());
    }
    if (std::filesystem::exists(std::filesystem::path(file) / "config.json", error)) {
      fail<UsageError>("cli", "{0} is the folder of a model; try --model_name_or_path {0}", file);
    }
    fail<UsageError>("cli",
                     "{} is a folder without config.json; expected the TOML file of a run, or the "
                     "folder of a model",
                     file);
  }
  out->task->check_config(file);
  if (!file.empty()) out->table.read_toml(file);
  out->table.take_overrides(typed_args());
  out->table.take_overrides(more);
  if (const auto from = out->training.deepspeed; !from.empty()) {
    if (auto note = options::take_deepspeed(from, out->table); !note.empty()) {
      out->notes.push_back(std::move(note));
    }
  }
  out->task->settle(out->table);
  out->table.check();
  out->training.check_effect();
  out->training.parallel.share(out->table);
  return out;
}

}  // namespace convoy::cli
