#include "convoy/tasks/session/same_ids.h"

#include <algorithm>

#include "convoy/base/error.h"
#include "convoy/base/files.h"
#include "convoy/prepare/items.h"
#include "convoy/prepare/scales.h"
#include "convoy/tasks/session/recommend.h"
#include "convoy/tasks/session/run.h"
#include "convoy/tasks/session/vector_columns.h"

namespace convoy::tasks {

namespace fs = std::filesystem;

namespace {

constexpr const char* kItems = "items.parquet";

void check_names(const fs::path& before, const fs::path& now, const std::string& what) {
  if (before.empty() || now.empty() || same_file(before, now)) return;
  if (read_regular_file(before) == read_regular_file(now)) return;  // nearly always
  const auto there = prepare::ItemNames::load(before), here = prepare::ItemNames::load(now);
  for (int64_t id = 1; id <= std::min(there.size(), here.size()); ++id) {
    if (there.raw_id(id) == here.raw_id(id)) continue;
    fail<FileError>("tasks",
                    "id {} is the {} '{}' in {} and '{}' in {}; expected ids that keep their "
                    "numbers; try convoy data sessions --ids-from with the data of that run",
                    id, what, there.raw_id(id), before.string(), here.raw_id(id), now.string());
  }
}

/// Returns the schema of the data; one without features where there is none.
formats::Schema schema_of(const BesideData& data) {
  auto file = data("schema.json");
  if (file.empty()) file = data("schema.pbtxt");
  return file.empty() ? formats::Schema() : formats::Schema::load(file);
}

/// Throws where a column of ids would be read as numbers, or one of numbers as ids.
void check_kinds(const models::SessionConfig& config, const BesideData& data) {
  auto file = data("schema.json");
  if (file.empty()) file = data("schema.pbtxt");
  if (file.empty()) return;
  const auto schema = formats::Schema::load(file);
  for (const auto& feature : config.features) {
    const auto* there = schema.find(feature.name);
    if (there == nullptr || feature.width > 0 || feature.name == config.item_feature) continue;
    if (there->type == formats::Feature::Unknown || holds_vectors(*there)) continue;
    const bool categorical = there->type == formats::Feature::Int && there->has_tag("categorical");
    if (categorical == feature.categorical) continue;
    const auto kind = [](bool is) { return is ? "categorical" : "continuous"; };
    const auto name = feature.name.ends_with("-list")
                          ? feature.name.substr(0, feature.name.size() - 5)
                          : feature.name;
    fail<FileError>("tasks",
                    "column '{}' is {} in {}; expected {}, as the model was trained on it; try "
                    "convoy data sessions --features {}:{}",
                    feature.name, kind(categorical), file.string(), kind(feature.categorical), name,
                    kind(feature.categorical));
  }
}

}  // namespace

BesideData beside(const fs::path& data) {
  std::error_code error;
  const auto folder = fs::is_directory(data, error) ? data : data.parent_path();
  return
      [folder](const std::string& name) { return kept_file(folder.empty() ? "." : folder, name); };
}

BesideData beside_nothing() {
  return [](const std::string&) { return fs::path(); };
}

void check_same_ids(const fs::path& folder, const models::SessionConfig& config,
                    const BesideData& data) {
  check_names(kept_file(folder, kItems), data(kItems), "item");
  check_kinds(config, data);
  const auto scales = data(prepare::kScalesFile);
  const bool knows_scales = !scales.empty() || !data(kItems).empty();
  const auto now = prepare::Scales::load(scales),
             before = prepare::Scales::load(kept_file(folder, prepare::kScalesFile));
  const auto schema = schema_of(data);
  for (const auto& feature : config.features) {
    // The reader of the data reports a missing column.
    const bool is_there = schema.features.empty() || schema.find(feature.name) != nullptr;
    const auto file = names_file(feature.name);
    if (feature.categorical && feature.name != config.item_feature) {
      check_names(kept_file(folder, file), data(file), "value of " + feature.name);
    } else if (knows_scales && is_there) {
      now.check_alike(feature.name, before, folder.string());
    }
  }
}

}  // namespace convoy::tasks
