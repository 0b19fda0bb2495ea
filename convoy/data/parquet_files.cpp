#include "convoy/data/parquet_files.h"

#include <algorithm>
#include <filesystem>

#include "convoy/base/error.h"
#include "convoy/data/pattern.h"

namespace convoy::data {

namespace fs = std::filesystem;

namespace {

bool is_pattern(const std::string& where) {
  return where.find_first_of("*?[") != std::string::npos;
}

std::vector<fs::path> match_pattern(const std::string& pattern) {
  auto paths = matching_files(pattern);
  if (paths.empty()) fail<FileError>("data", "no file matches the pattern {}", pattern);
  return paths;
}

std::vector<fs::path> list_folder(const fs::path& folder) {
  std::vector<fs::path> paths;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    const std::string name = entry.path().filename().string();
    if (entry.path().extension() == ".parquet" && name[0] != '.' && name[0] != '_') {
      paths.push_back(entry.path());
    }
  }
  if (error) fail<FileError>("data", "cannot list {}: {}", folder.string(), error.message());
  if (paths.empty()) fail<FileError>("data", "folder {} holds no *.parquet", folder.string());
  return paths;
}

std::vector<fs::path> find_files(const std::string& where) {
  std::error_code ignored;
  std::vector<fs::path> paths = {where};
  if (fs::is_directory(where, ignored)) {
    paths = list_folder(where);
  } else if (is_pattern(where) && !fs::exists(where, ignored)) {
    paths = match_pattern(where);
  }
  std::sort(paths.begin(), paths.end());
  return paths;
}

/// Streams of several files, one after the other; each is opened when its turn comes.
class ChainStream : public RowStream {
 public:
  struct Part {
    ParquetFile file;
    std::vector<RowRange> segments;
    int64_t num_rows = 0;
  };

  ChainStream(std::vector<Part> parts, Selection selection)
      : parts_(std::move(parts)), selection_(std::move(selection)) {}

  void append(int64_t count, Rows& rows) override {
    while (count > 0 && part_ < parts_.size()) {
      Part& part = parts_[part_];
      if (!stream_) stream_ = part.file.stream(part.segments, selection_);
      const int64_t now = std::min(count, part.num_rows);
      stream_->append(now, rows);
      count -= now;
      part.num_rows -= now;
      if (part.num_rows == 0) {
        decoded_rows_ += stream_->decoded_rows();
        stream_.reset();
        ++part_;
      }
    }
  }

  int64_t decoded_rows() const override {
    return decoded_rows_ + (stream_ ? stream_->decoded_rows() : 0);
  }

 private:
  std::vector<Part> parts_;
  Selection selection_;
  std::unique_ptr<RowStream> stream_;
  size_t part_ = 0;
  int64_t decoded_rows_ = 0;
};

/// Whether the values of a feature are ids, by its domain or a tag.
bool is_of_ids(const formats::Feature& feature) {
  const bool tagged = feature.has_tag("categorical") || feature.has_tag("item_id");
  return feature.int_domain.has_value() &&
         (feature.int_domain->is_categorical || (tagged && feature.type == formats::Feature::Int));
}

}  // namespace

Selection select(const formats::Schema& schema, const std::vector<std::string>& columns) {
  Selection selection;
  selection.columns = columns;
  for (const std::string& name : columns) {
    const formats::Feature* feature = schema.find(name);
    if (feature && is_of_ids(*feature)) {
      selection.limits[name].max = feature->int_domain->max;
    }
  }
  return selection;
}

ParquetFiles::ParquetFiles(const std::string& where) : where_(where) {
  for (const fs::path& path : find_files(where)) {
    files_.emplace_back(path);
    const ParquetFile& file = files_.back();
    for (int64_t group = 0; group < file.num_row_groups(); ++group) {
      places_.push_back({files_.size() - 1, group});
      group_rows_.push_back(file.group_rows()[group]);
    }
    num_rows_ += file.num_rows();
  }
}

void ParquetFiles::check(const Selection& selection) const {
  for (const ParquetFile& file : files_) {
    file.check(selection);
    for (const ColumnInfo& column : file.columns()) {
      if (std::ranges::find(selection.columns, column.name) == selection.columns.end()) continue;
      const auto first = std::ranges::find(columns(), column.name, &ColumnInfo::name);
      if (first->kind == column.kind && first->is_list == column.is_list &&
          first->is_vectors == column.is_vectors) {
        continue;
      }
      fail<FileError>("data",
                      "column '{}' is {} in {} but {} in {}; expected one type in all files",
                      column.name, first->type, files_.front().path().string(), column.type,
                      file.path().string());
    }
  }
}

int64_t ParquetFiles::decoded_bytes(const Selection& selection, int64_t group) const {
  const Place& place = places_.at(group);
  return files_[place.file].decoded_bytes(selection, place.group);
}

int64_t ParquetFiles::decoded_bytes(const Selection& selection) const {
  int64_t sum = 0;
  for (int64_t group = 0; group < num_row_groups(); ++group) sum += decoded_bytes(selection, group);
  return sum;
}

Rows ParquetFiles::read(int64_t group, const Selection& selection) const {
  const Place& place = places_.at(group);
  return files_[place.file].read(place.group, selection);
}

std::unique_ptr<RowStream> ParquetFiles::stream(const std::vector<RowRange>& segments,
                                                const Selection& selection) const {
  std::vector<ChainStream::Part> parts;
  for (size_t i = 0; i < segments.size(); ++i) {
    const Place& place = places_.at(segments[i].group);
    if (i == 0 || place.file != places_[segments[i - 1].group].file) {
      parts.push_back({files_[place.file], {}});
    }
    parts.back().segments.push_back({place.group, segments[i].begin, segments[i].end});
    parts.back().num_rows += segments[i].end - segments[i].begin;
  }
  return std::make_unique<ChainStream>(std::move(parts), selection);
}

bool has_numbers(const ParquetFiles& files, const std::string& name, bool is_list) {
  const auto column = std::ranges::find(files.columns(), name, &ColumnInfo::name);
  return column != files.columns().end() && column->readable && column->is_list == is_list &&
         column->kind == Column::Int64;
}

}  // namespace convoy::data
