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

std::string with_rows(const std::map<int64_t, fs::path>& folders, int64_t window,
                      const fs::path& where, const char* name) {
  const auto folder = folders.find(window);
  const auto file = folder == folders.end() ? fs::path() : folder->second / name;
  if (!file.empty() && fs::exists(file) && data::ParquetFiles(file.string()).num_rows() > 0) {
    return file.string();
  }
  fail<FileError>(
      "data", "window {} of {} has no rows{}; it holds {} to {}: try other --start and --end",
      window, where.string(), file.empty() ? "" : fmt::format(" in {}", file.filename().string()),
      folders.begin()->first, folders.rbegin()->first);
}

}  // namespace

std::vector<Window> SessionTask::windows() const {
  const auto& data = arguments_.data;
  if (data.windows.empty()) return {};
  const auto folders = folders_in(data.windows);
  const int64_t end = data.end > 0 ? data.end : folders.rbegin()->first;
  if (end <= data.start) {
    fail<UsageError>("data",
                     "windows {} to {} are trained on and evaluated in pairs; expected --end above "
                     "--start",
                     data.start, end);
  }
  const auto schema = data.schema.empty() ? formats::schema_in(data.windows).string() : data.schema;
  std::vector<Window> out;
  for (int64_t window = data.start; window < end; ++window) {
    const auto train = with_rows(folders, window, data.windows, "train.parquet");
    const auto valid = with_rows(folders, window + 1, data.windows, "valid.parquet");
    const auto name_of = [&](int64_t number) { return fmt::format("{:04}", number); };
    out.push_back({name_of(window),
                   name_of(window + 1),
                   {{"data.train", train}, {"data.valid", valid}, {"data.schema", schema}},
                   kWindowOptions,
                   data.keep_moments});
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
