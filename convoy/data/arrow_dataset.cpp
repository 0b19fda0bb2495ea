#include "convoy/data/arrow_dataset.h"

#include <arrow/io/file.h>
#include <arrow/ipc/reader.h>

#include <array>
#include <fstream>

#include "convoy/base/error.h"
#include "convoy/base/files.h"
#include "convoy/base/json.h"
#include "convoy/base/text.h"
#include "convoy/data/arrow.h"

namespace convoy::data {
namespace fs = std::filesystem;

namespace {

constexpr const char *kState = "state.json", *kSplits = "dataset_dict.json";

bool has_file(const fs::path& folder, const char* name) {
  std::error_code ignored;
  return fs::is_regular_file(folder / name, ignored);
}

/// Folder of the data: `folder`, or its split "train".
fs::path one_split(const fs::path& folder) {
  if (!has_file(folder, kSplits)) return folder;
  const auto file = folder / kSplits;
  const Json json = parse_json(read_file(file), file.string());
  std::vector<std::string> names;
  if (json.is_object() && json.contains("splits") && json["splits"].is_array()) {
    for (const auto& name : json["splits"]) {
      if (name.is_string()) names.push_back(name.get<std::string>());
    }
  }
  for (const auto& name : names) {
    if (name == "train") return folder / name;
  }
  fail<FileError>("data", "{} has the splits {}, and none is 'train'; try one of their folders",
                  folder.string(), join(names));
}

std::vector<fs::path> files_of(const fs::path& where) {
  std::error_code ignored;
  if (!fs::is_directory(where, ignored)) return {where};
  const auto folder = one_split(where);
  const auto state = folder / kState;
  const Json json = parse_json(read_file(state), state.string());
  std::vector<fs::path> out;
  if (json.is_object() && json.contains("_data_files") && json["_data_files"].is_array()) {
    for (const auto& one : json["_data_files"]) {
      if (one.is_object() && one.contains("filename") && one["filename"].is_string()) {
        out.push_back(folder / one["filename"].get<std::string>());
      }
    }
  }
  if (out.empty()) {
    fail<FileError>("data", "{} names no data files; expected a folder of datasets' save_to_disk()",
                    state.string());
  }
  if (json.contains("_indices_data_files") && json["_indices_data_files"].is_array() &&
      !json["_indices_data_files"].empty()) {
    fail<FileError>("data",
                    "{} was saved with an order or selection beside its rows; try "
                    "flatten_indices() before save_to_disk()",
                    folder.string());
  }
  return out;
}

using UseSchema = std::function<bool(const std::shared_ptr<arrow::Schema>&)>;

/// Calls `use_schema` with a file's schema, and `consume` with its batches where that returns true.
void read_one(const fs::path& file, const UseSchema& use_schema,
              const std::function<void(const arrow::RecordBatch&)>& consume) {
  const auto mapped = arrow_value(
      arrow::io::MemoryMappedFile::Open(file.string(), arrow::io::FileMode::READ), file);
  std::array<char, 6> begin{};
  std::ifstream(file, std::ios::binary).read(begin.data(), begin.size());
  if (std::string_view(begin.data(), begin.size()) == "ARROW1") {
    const auto reader = arrow_value(arrow::ipc::RecordBatchFileReader::Open(mapped), file);
    if (!use_schema(reader->schema())) return;
    for (int b = 0; b < reader->num_record_batches(); ++b) {
      consume(*arrow_value(reader->ReadRecordBatch(b), file));
    }
    return;
  }
  const auto reader = arrow_value(arrow::ipc::RecordBatchStreamReader::Open(mapped), file);
  if (!use_schema(reader->schema())) return;
  while (const auto batch = arrow_value(reader->Next(), file)) consume(*batch);
}

}  // namespace

bool ArrowDataset::is_one(const fs::path& where) {
  std::error_code ignored;
  if (!fs::is_directory(where, ignored)) {
    return where.extension() == ".arrow" && fs::is_regular_file(where, ignored);
  }
  return has_file(where, kState) || has_file(where, kSplits);
}

ArrowDataset::ArrowDataset(const fs::path& where) : files_(files_of(where)) {
  const auto keep = [this](const std::shared_ptr<arrow::Schema>& schema) {
    schema_ = schema;
    return false;
  };
  read_one(files_.front(), keep, {});
}

void ArrowDataset::read(const std::function<void(const arrow::RecordBatch&)>& consume,
                        const ProgressFn& progress) const {
  int64_t done = 0;
  for (const auto& file : files_) {
    const auto check = [&](const std::shared_ptr<arrow::Schema>& schema) {
      if (schema->Equals(*schema_)) return true;
      fail<FileError>("data", "{} has other columns than {}; try saving the data set again",
                      file.string(), files_.front().string());
    };
    read_one(file, check, consume);
    if (progress) progress(++done, static_cast<int64_t>(files_.size()));
  }
}

}  // namespace convoy::data
