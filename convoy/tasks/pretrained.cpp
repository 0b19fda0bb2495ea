#include "convoy/tasks/pretrained.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "convoy/base/error.h"
#include "convoy/base/files.h"
#include "convoy/base/text.h"
#include "convoy/checkpoint/adapter.h"
#include "convoy/checkpoint/carried.h"
#include "convoy/checkpoint/contents.h"
#include "convoy/checkpoint/weights.h"
#include "convoy/comm/agree.h"
#include "convoy/formats/safetensors_folder.h"
#include "convoy/models/wrapper.h"

namespace convoy::tasks {
namespace fs = std::filesystem;

namespace {

constexpr const char* kTokenizerConfig = "tokenizer_config.json";

void read_file_of_config(const fs::path& path, models::LanguageModelConfig& config,
                         OptionTable& table) {
  std::vector<std::pair<std::string, std::string>> asked;
  for (const auto& option : table.options()) {
    if (option.section != "model" || option.source.empty()) continue;
    asked.emplace_back(option.key(), option.plain());
  }
  config.read(checkpoint::read_config(path), path.string());
  for (const auto& [key, value] : asked) table.set(key, value, table.find(key)->source);
}

}  // namespace

void add_hints_of_texts(OptionTable& table) {
  for (const OptionHint& hint :
       std::vector<OptionHint>{{"model.family", true, {"model", "architecture"}},
                               {"model.start", true, {"pretrained", "init_from"}},
                               {"model.task", true, {}},
                               {"data.train", true, {"dataset", "data", "train_data"}},
                               {"data.valid", true, {"eval_data", "valid_file", "test_file"}},
                               {"data.tokenizer", true, {"tokenizer_path"}}}) {
    table.hint(hint);
  }
}

fs::path config_file(const fs::path& place) {
  return fs::is_directory(place) ? place / "config.json" : place;
}

void read_config(const fs::path& place, models::LanguageModelConfig& config, OptionTable& table) {
  if (!fs::is_regular_file(config_file(place))) {
    fail<UsageError>(
        "tasks",
        "model.config_name = {} is no config.json, nor a folder with one; configs on a "
        "hub are not fetched: download it, then give its path",
        place.string());
  }
  read_file_of_config(config_file(place), config, table);
}

void read_pretrained(const fs::path& folder, models::LanguageModelConfig& config,
                     OptionTable& table) {
  const auto path = folder / "config.json";
  if (!fs::exists(path)) {
    fail<UsageError>("tasks",
                     "model.start = {} is no folder with config.json and model.safetensors; names "
                     "of models on a hub are not fetched: download it, then give its folder",
                     folder.string());
  }
  read_file_of_config(path, config, table);
}

void note_unknown_keys(const fs::path& place, const models::LanguageModelConfig& config, Run& run) {
  const auto& unknown = config.unknown();
  if (unknown.empty()) return;
  run.notes->push_back(
      fmt::format("warning: {} has keys without effect here, which are saved unchanged: {}",
                  config_file(place).string(), join(unknown)));
}

namespace {

/// Throws where a frozen weight was drawn: an adapter neither trains nor saves it, so it would be
/// lost.
void check_nothing_frozen_is_drawn(const fs::path& folder, const parallel::State& base,
                                   const std::vector<std::string>& drawn) {
  std::vector<std::string> lost, modules;
  for (const auto& tensor : base) {
    if (tensor.trained || std::find(drawn.begin(), drawn.end(), tensor.name) == drawn.end()) {
      continue;
    }
    lost.push_back(tensor.name);
    const auto module = tensor.name.substr(0, tensor.name.rfind('.'));
    if (modules.empty() || modules.back() != module) modules.push_back(module);
  }
  if (lost.empty()) return;
  fail<UsageError>("lora",
                   "{} has no {}, which adapters neither train nor save; try --modules_to_save {}",
                   folder.string(), join(lost), fmt::join(modules, ","));
}

}  // namespace

void carry_others(const fs::path& start, const models::LanguageModelConfig& config, bool adapts,
                  Run& run) {
  const auto* wrapper = config.wrapper();
  if (wrapper == nullptr) return;
  if (start.empty()) {
    fail<UsageError>("tasks",
                     "a {} has other parts beside its text part, whose weights cannot be drawn; "
                     "try --model_name_or_path FOLDER, or the config of a {} alone",
                     wrapper->model_type, config.family());
  }
  const auto carried = std::make_shared<const checkpoint::Carried>(start, config);
  if (!adapts) run.files.carried = carried;
  for (const char* name : {"preprocessor_config.json", "processor_config.json"}) {
    keep_beside(start, name, run.files);
  }
  run.notes->push_back(fmt::format(
      "the text part of a {} is trained; {} of its other parts, {}, {}", wrapper->model_type,
      plural(carried->num_tensors(), "tensor"), human_bytes(carried->num_bytes()),
      adapts ? "stay as they are beside the adapter" : "are carried along unchanged"));
}

void start_from(const fs::path& folder, const models::LanguageModelConfig& config,
                const models::WeightLayout& layout, Run& run, const fs::path& adapter) {
  note_unknown_keys(folder, config, run);
  if (auto note = checkpoint::tell_newer(folder); !note.empty()) {
    run.notes->push_back(std::move(note));
  }
  run.fill = [folder, layout, adapter, notes = run.notes,
              carried = run.files.carried](parallel::Replica& replica) {
    const auto weights = replica.weights();
    const auto base = checkpoint::base_part(weights);
    const auto report = checkpoint::load_weights(folder, base, replica.world(), layout);
    if (checkpoint::is_adapted(weights)) check_nothing_frozen_is_drawn(folder, base, report.drawn);
    std::set<std::string> drawn(report.drawn.begin(), report.drawn.end());
    for (const auto& tensor : weights) {
      if (checkpoint::is_of_adapter(tensor.name)) drawn.insert(tensor.name);
    }
    replica.draw(drawn);
    if (!adapter.empty()) {
      checkpoint::load_weights(adapter / formats::kAdapterFile,
                               checkpoint::saved_part(replica.weights()), replica.world());
    }
    const bool is_main = replica.world().rank() == 0;
    if (carried) {
      comm::each_rank(
          replica.world(), "check carried weights",
          [&] {
            if (is_main) carried->check_sums();
          },
          comm::Lasts::Long);
    }
    if (!is_main) return;
    // An adapter holds the weights that the folder lacks.
    for (const auto& name : adapter.empty() ? report.drawn : std::vector<std::string>()) {
      notes->push_back(
          fmt::format("warning: {} has no {}: it is initialised randomly", folder.string(), name));
    }
    if (report.skipped.empty()) return;
    notes->push_back(fmt::format(
        "{}: ignored {} that the model does not use, such as {}", folder.string(),
        plural(static_cast<int64_t>(report.skipped.size()), "tensor"), report.skipped[0]));
  };
}

std::optional<tokenizers::Tokenizer> find_tokenizer(const std::vector<fs::path>& places,
                                                    const std::string& named) {
  for (const auto& place : places) {
    if (place.empty() || place == "..") continue;
    if (place == named) {
      if (fs::exists(place)) return tokenizers::Tokenizer::load(place);
      fail<UsageError>("tasks",
                       "data.tokenizer = {} is no file or folder; tokenizers on a hub are not "
                       "fetched: download tokenizer.json, then give its folder",
                       named);
    }
    if (tokenizers::holds_tokenizer(place)) return tokenizers::Tokenizer::load(place);
  }
  return std::nullopt;
}

namespace {

/// Content of a tokenizer_config.json that the files lack; "" where it is not needed. transformers
/// takes the model's usual class for two kinds of files unless it is told: T5's would read GPT-2's
/// words as other ids.
std::string missing_settings(const tokenizers::Tokenizer& tokenizer) {
  std::string out;
  for (const auto& file : tokenizer.files()) {
    if (file.name == kTokenizerConfig) return "";
    const bool merges = file.name == "vocab.json", words = file.name == "vocab.txt";
    if (!merges && !words) continue;
    out = Json({{"tokenizer_class", merges ? "GPT2Tokenizer" : "BertTokenizer"}}).dump(2) + "\n";
  }
  return out;
}

}  // namespace

void keep_tokenizer(const std::optional<tokenizers::Tokenizer>& tokenizer,
                    train::ModelFiles& files) {
  if (tokenizer) {
    for (const auto& file : tokenizer->files()) files.copies.emplace_back(file.path, file.name);
    if (auto text = missing_settings(*tokenizer); !text.empty()) {
      files.texts[kTokenizerConfig] = std::move(text);
    }
    files.encoding = "tokenizer " + tokenizer->fingerprint();
  }
  files.looked_for = tokenizers::tokenizer_file_names();
  files.looked_for.push_back(checkpoint::kAdapterConfig);
}

void keep_beside(const fs::path& folder, const char* name, train::ModelFiles& files) {
  std::error_code error;
  if (fs::is_regular_file(folder / name, error)) files.copies.emplace_back(folder / name);
}

bool note_other_tokenizer(const fs::path& folder, const std::string& named,
                          const std::optional<tokenizers::Tokenizer>& used, Run& run) {
  if (named.empty() || !used || !tokenizers::holds_tokenizer(folder)) return false;
  try {
    if (tokenizers::Tokenizer::load(folder).fingerprint() == used->fingerprint()) return false;
  } catch (const Error&) {  // it cannot be read here: perhaps why another was named
    return true;
  }
  run.notes->push_back(
      fmt::format("warning: the model of {} learned the ids of its own tokenizer, and that of {} "
                  "gives others: to keep what it knows try without --tokenizer",
                  folder.string(), named));
  return true;
}

}  // namespace convoy::tasks
