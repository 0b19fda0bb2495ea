#include "convoy/prepare/scales.h"

#include <fmt/ranges.h>

#include "convoy/base/error.h"
#include "convoy/base/files.h"
#include "convoy/base/json.h"
#include "convoy/base/text.h"

namespace convoy::prepare {

namespace fs = std::filesystem;

Scales Scales::load(const fs::path& file) {
  Scales out;
  if (!fs::exists(file)) return out;
  const auto wrong = [&](const std::string& what) {
    fail<FileError>("prepare", R"({} {}; expected an object such as {{"price-list": ["log1p"]}})",
                    file.string(), what);
  };
  const auto json = parse_json(read_file(file), file.string());
  if (!json.is_object()) wrong("holds " + json_line(json));
  for (const auto& [column, steps] : json.items()) {
    FeatureScale scale;
    if (!steps.is_array()) wrong(fmt::format("has {} for '{}'", json_line(steps), column));
    for (const auto& step : steps) {
      if (step.is_string() && scale.add(step.get<std::string>())) continue;
      wrong(fmt::format("has the step {} for '{}'", json_line(step), column));
    }
    out.add(column, scale);
  }
  return out;
}

void Scales::add(const std::string& column, const FeatureScale& scale) {
  if (!scale.is_plain()) by_column_[column] = scale;
}

std::string Scales::to_text(const std::string& column) const {
  const auto found = by_column_.find(column);
  if (found == by_column_.end()) return "no scale";
  return fmt::format("the scale {}", fmt::join(found->second.steps(), ":"));
}

void Scales::check_alike(const std::string& column, const Scales& other,
                         const std::string& where) const {
  const auto now = to_text(column), there = other.to_text(column);
  if (now == there) return;
  fail<UsageError>("prepare",
                   "the feature {} has {}, and in {} {}; expected the same, since one model reads "
                   "both; try --features of convoy data sessions as before",
                   column, now, where, there);
}

double Scales::apply(const std::string& column, double value) const {
  const auto found = by_column_.find(column);
  if (found == by_column_.end()) return value;
  try {
    return found->second.apply(value, column);
  } catch (const FileError& error) {
    throw UsageError(error.what());
  }
}

std::string Scales::to_json() const {
  Json out = Json::object();
  for (const auto& [column, scale] : by_column_) out[column] = scale.steps();
  return out.dump(2) + "\n";
}

}  // namespace convoy::prepare
