#include "convoy/tasks/session/inherited_options.h"

#include <algorithm>
#include <filesystem>

#include "convoy/base/error.h"
#include "convoy/base/files.h"
#include "convoy/base/json_number.h"
#include "convoy/base/text.h"
#include "convoy/checkpoint/folder.h"
#include "convoy/prepare/seen.h"
#include "convoy/tasks/session/histories.h"
#include "convoy/tasks/session/recommend.h"

namespace convoy::tasks {

namespace fs = std::filesystem;

namespace {

constexpr const char *kMaxLength = "data.max_length", *kExcludeSeen = "train.exclude_seen";

/// Length of the model in a folder; 0 where that is unknown, which the model's loader reports.
int64_t length_of_model(const fs::path& folder) {
  std::error_code error;
  const auto file = folder / checkpoint::kConfig;
  if (folder.empty() || !fs::exists(file, error)) return 0;
  const auto config = Json::parse(read_file(file), nullptr, /*allow_exceptions=*/false);
  if (!config.is_object() || !config.contains("max_length")) return 0;
  return whole_number<int64_t>(config.at("max_length")).value_or(0);
}

/// Checkpoint that a run resumes from; of a run over windows, that of any window.
fs::path resumed(const OptionTable& table) {
  const auto* option = table.find("train.resume_from_checkpoint");
  const auto from = option == nullptr ? "" : option->plain();
  if (from.empty() || from == "false") return {};
  if (from != "latest" && from != "true") return from;
  const auto* output = table.find("output.dir");
  const fs::path base = output == nullptr ? "" : output->plain();
  std::error_code error;
  if (base.empty() || !fs::is_directory(base, error)) return {};
  if (const auto last = checkpoint::latest_checkpoint(base)) return *last;
  for (const auto& entry : fs::directory_iterator(base)) {
    int64_t window = 0;
    if (!entry.is_directory() || !parse_number(entry.path().filename().string(), window)) continue;
    if (const auto last = checkpoint::latest_checkpoint(entry.path())) return *last;
    if (length_of_model(entry.path()) > 0) return entry.path();
  }
  return {};
}

/// Length by the schema of the data; 0 where it is unknown or no schema, which its reader reports.
int64_t length_of_data(const DataArguments& data) {
  const auto file = data.windows.empty()  ? data.schema_file()
                    : data.schema.empty() ? formats::schema_in(data.windows).string()
                                          : data.schema;
  std::error_code error;
  if (file.empty() || !fs::exists(file, error)) return 0;
  try {
    return length_in(formats::Schema::load(file));
  } catch (const FileError&) {
    return 0;
  }
}

/// Value of exclude_seen of a run or a checkpoint; "" = none.
std::string of_run(const fs::path& folder) {
  const auto file = folder.empty() ? folder : kept_file(folder, "run.toml");
  if (file.empty()) return "";
  const auto values = toml_values(file);
  const auto found = values.find(kExcludeSeen);
  return found == values.end() ? "" : found->second;
}

}  // namespace

bool excludes_seen_in(const fs::path& folder) {
  const auto said = of_run(folder);
  if (said == "true" || said == "false") return said == "true";
  return prepare::decided_to_exclude(beside_data_of(folder, prepare::kDecisionsFile));
}

int64_t length_in(const formats::Schema& schema) {
  for (const auto& feature : schema.features) {
    if (!feature.has_tag("item_id") || feature.max_length < 1) continue;
    return std::clamp<int64_t>(feature.max_length, 2, kMostByDefault);
  }
  return 0;
}

void settle_max_length(const SessionArguments& arguments, OptionTable& table) {
  if (!table.find(kMaxLength)->source.empty()) return;
  const auto set = [&](int64_t length, const char* source) {
    if (length > 1) table.set(kMaxLength, std::to_string(length), source);
    return length > 1;
  };
  if (set(length_of_model(resumed(table)), "the checkpoint")) return;
  if (set(length_of_model(arguments.model_name_or_path), "model.model_name_or_path")) return;
  // T4RecTrainingArguments has 20, whatever the schema says.
  if (arguments.parity != "transformers4rec") set(length_of_data(arguments.data), "the schema");
}

void settle_exclude_seen(const SessionArguments& arguments, OptionTable& table) {
  if (table.find(kExcludeSeen)->plain() != "auto") return;
  const auto set = [&](const std::string& value, const char* source) {
    const bool says = value == "true" || value == "false";
    if (says) table.set(kExcludeSeen, value, source);
    return says;
  };
  if (arguments.parity == "transformers4rec") {
    set("false", "parity = transformers4rec");
    return;
  }
  if (set(of_run(resumed(table)), "the checkpoint")) return;
  if (set(of_run(arguments.model_name_or_path), "model.model_name_or_path")) return;
  const auto& data = arguments.data;
  const fs::path schema = data.windows.empty() || !data.schema.empty()
                              ? fs::path(data.schema_file())
                              : formats::schema_in(data.windows);
  const bool excludes =
      !schema.empty() && prepare::decided_to_exclude(kept_file(
                             schema.parent_path().empty() ? fs::path(".") : schema.parent_path(),
                             prepare::kDecisionsFile));
  set(excludes ? "true" : "false", "the data");
}

}  // namespace convoy::tasks
