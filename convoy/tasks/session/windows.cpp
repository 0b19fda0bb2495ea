#include <algorithm>
#include <filesystem>
#include <map>

#include "convoy/base/error.h"
#include "convoy/base/text.h"
#include "convoy/data/parquet_files.h"
#include "convoy/formats/schema.h"
#include "convoy/tasks/session/task.h"

namespace convoy::tasks {

namespace fs = std::filesystem;

namespace {

constexpr const char *kTrained = "train.parquet", *kEvaluated = "valid.parquet";

/// Folders whose names are numbers of at least 1, such as 0001 or 1.
std::map<int64_t, fs::path> folders_in(const fs::path& where) {
  std::map<int64_t, fs::path> out;
  if (!fs::is_directory(where)) {
    fail<UsageError>("data", "data.windows = {} is no folder", where.string());
  }
  for (const auto& entry : fs::directory_iterator(where)) {
    const auto name = entry.path().filename().string();
    int64_t number = 0;
    if (!entry.is_directory() || !parse_number(name, number) || number < 1) continue;
    if (const auto [other, fresh] = out.emplace(number, entry.path()); !fresh) {
      fail<FileError>("data", "{} and {} are both window {}; expected one", other->second.string(),
                      entry.path().string(), number);
    }
  }
  if (out.empty()) {
    fail<FileError>("data",
                    "{} holds no windows; expected folders 0001, 0002, ...; try convoy data "
                    "sessions --windows day",
                    where.string());
  }
  return out;
}

/// Folders of a data set's windows.
class Windows {
 public:
  explicit Windows(const fs::path& where) : where_(where), folders_(folders_in(where)) {}

  int64_t last() const { return folders_.rbegin()->first; }

  /// Last window with rows in a file of this name; last() where none has any.
  int64_t last_with_rows(const char* name) const {
    for (auto folder = folders_.rbegin(); folder != folders_.rend(); ++folder) {
      if (has_rows(folder->first, name)) return folder->first;
    }
    return last();
  }

  bool has_rows(int64_t window, const char* name) const {
    const auto folder = folders_.find(window);
    if (folder == folders_.end()) return false;
    const auto file = folder->second / name;
    return fs::exists(file) && data::ParquetFiles(file.string()).num_rows() > 0;
  }

  std::string with_rows(int64_t window, const char* name) const {
    if (has_rows(window, name)) return (folders_.at(window) / name).string();
    fail<FileError>(
        "data", "window {} of {} has no rows{}; it holds {} to {}: try other --start and --end",
        window, where_.string(), folders_.contains(window) ? fmt::format(" in {}", name) : "",
        folders_.begin()->first, last());
  }

 private:
  fs::path where_;
  std::map<int64_t, fs::path> folders_;
};

}  // namespace

std::vector<Window> SessionTask::windows() const {
  const auto& data = arguments_.data;
  if (data.windows.empty()) return {};
  const Windows windows(data.windows);
  const int64_t end = data.end > 0 ? data.end : windows.last_with_rows(kEvaluated);
  if (end <= data.start) {
    fail<UsageError>("data",
                     "windows {} to {} are trained on and evaluated in pairs; expected --end above "
                     "--start",
                     data.start, end);
  }
  const auto schema = data.schema.empty() ? formats::schema_in(data.windows).string() : data.schema;
  std::vector<Window> out;
  const auto name_of = [](int64_t number) { return fmt::format("{:04}", number); };
  for (int64_t window = data.start; window < end;) {
    int64_t next = window + 1;  // a day without sessions is passed over
    const auto is_empty = [&](int64_t it) {
      return !windows.has_rows(it, kTrained) || !windows.has_rows(it, kEvaluated);
    };
    std::vector<std::string> passed_over;
    for (; next < end && is_empty(next); ++next) {
      // A person's own folder may have windows without a training file; convoy data sessions gives
      // each window with events both.
      if (windows.has_rows(next, kTrained)) passed_over.push_back(name_of(next));
    }
    out.push_back({name_of(window),
                   name_of(next),
                   {{"data.train", windows.with_rows(window, kTrained)},
                    {"data.valid", windows.with_rows(next, kEvaluated)},
                    {"data.schema", schema}},
                   kWindowOptions,
                   data.keep_moments,
                   passed_over.empty()
                       ? ""
                       : fmt::format("warning: windows {} have no rows in {} and are not trained "
                                     "on; try sessions with validation rows for each",
                                     join(passed_over), kEvaluated)});
    window = next;
  }
  return out;
}

std::vector<std::string> SessionTask::main_metrics() const {
  const auto ks = arguments_.ranking.top_k_values();
  if (ks.empty()) return {"loss"};
  const bool ten = std::find(ks.begin(), ks.end(), 10) != ks.end();
  const int64_t k = ten ? 10 : ks.front();
  return {fmt::format("ndcg_at_{}", k), fmt::format("recall_at_{}", k)};
}

}  // namespace convoy::tasks
