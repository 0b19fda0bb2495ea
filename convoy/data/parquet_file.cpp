#include "convoy/data/parquet_file.h"

#include <parquet/file_reader.h>
#include <parquet/metadata.h>
#include <parquet/schema.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <map>

#include "convoy/base/error.h"
#include "convoy/base/file_status.h"
#include "convoy/base/text.h"
#include "convoy/data/arrow_decode.h"
#include "convoy/data/parquet_stream.h"

namespace convoy::data {

namespace fs = std::filesystem;

namespace {

constexpr int64_t kStreamRows = 1024;              // decoded at a time
constexpr int64_t kMaxReserve = int64_t{1} << 26;  // values, so that a lying footer costs little
constexpr int64_t kMaxCount = int64_t{1} << 48;    // rows or values; beyond is nonsense

/// Says in plain words what is wrong with a file that is no Parquet at all.
void check_magic(const fs::path& path) {
  const std::string name = path.string();
  std::error_code error;
  if (!fs::exists(path, error)) {
    if (error) fail<FileError>("data", "cannot read {}: {}", name, error.message());
    fail<FileError>("data", "there is no file {}; expected a Parquet file, or a folder with one",
                    name);
  }
  if (!fs::is_regular_file(path, error)) {
    fail<FileError>("data", "{} is not a regular file; expected a Parquet file", name);
  }
  const auto size = fs::file_size(path, error);
  if (error) fail<FileError>("data", "cannot read {}: {}", name, error.message());
  if (size == 0) fail<FileError>("data", "{} is empty (0 bytes); expected a Parquet file", name);
  std::ifstream in(path, std::ios::binary);
  if (!in) fail<FileError>("data", "cannot read {}: {}", name, std::strerror(errno));
  std::array<char, 4> head{}, tail{};
  in.read(head.data(), 4);
  in.seekg(-4, std::ios::end);
  in.read(tail.data(), 4);
  const std::string_view first(head.data(), 4), last(tail.data(), 4);
  if (!in && size >= 4) fail<FileError>("data", "cannot read {}: reading failed", name);
  if (last == "PARE") {
    fail<FileError>("data", "{} is an encrypted Parquet file, which is not supported", name);
  }
  if (size < 4 || first != "PAR1") {
    const auto ending = std::filesystem::path(name).extension();
    const bool table = ending == ".csv" || ending == ".tsv" || ending == ".inter";
    fail<FileError>("data", "{0} is not a Parquet file: it does not begin with PAR1{1}", name,
                    table ? fmt::format("; try convoy data sessions {} --output DIR for a table of "
                                        "events",
                                        name)
                          : "");
  }
  if (size < 12 || last != "PAR1") {
    fail<FileError>("data",
                    "{} is cut short: it begins as Parquet but does not end so; was writing it "
                    "interrupted?",
                    name);
  }
}

}  // namespace

struct ParquetFile::Impl {
  fs::path path;
  struct stat opened{};
  std::shared_ptr<arrow::io::ReadableFile> file;
  std::shared_ptr<parquet::FileMetaData> metadata;
  std::vector<ColumnInfo> columns;
  std::map<std::string, int> leaves;  // readable columns by name
  std::vector<int64_t> group_rows;
  std::vector<int64_t> group_first_row;
  int64_t num_rows = 0;
  int64_t file_bytes = 0;

  std::unique_ptr<parquet::arrow::FileReader> open() const {
    return open_parquet(path, kStreamRows, file, metadata);
  }

  struct stat status_now() const {
    struct stat out{};
    fstat(file->file_descriptor(), &out);
    return out;
  }

  /// Throws FileError where the file was changed, so that the footer's offsets are no longer right.
  /// A file that was replaced stays readable.
  void check_unchanged() const {
    if (is_as_before(opened, status_now())) return;
    fail<FileError>("data",
                    "{} was written to while it was in use; start again, and replace files by "
                    "renaming instead",
                    path.string());
  }

  /// Values of a column in a row group, as the footer says.
  int64_t num_values(const std::string& column, int64_t group) const {
    auto row_group = metadata->RowGroup(static_cast<int>(group));
    return std::clamp<int64_t>(row_group->ColumnChunk(leaves.at(column))->num_values(), 0,
                               kMaxCount);
  }

  void read_columns(const arrow::Schema& schema) {
    columns = columns_of(schema);
    const parquet::SchemaDescriptor& leaf_schema = *metadata->schema();
    for (int leaf = 0; leaf < leaf_schema.num_columns(); ++leaf) {
      leaves[leaf_schema.GetColumnRoot(leaf)->name()] = leaf;
    }
  }

  void read_groups() {
    for (int group = 0; group < metadata->num_row_groups(); ++group) {
      const int64_t rows = metadata->RowGroup(group)->num_rows();
      if (rows < 0 || rows > kMaxCount) {
        fail<FileError>("data", "{} is damaged: row group {} says it has {} rows", path.string(),
                        group, rows);
      }
      group_first_row.push_back(num_rows);
      group_rows.push_back(rows);
      num_rows += rows;
    }
  }
};

ParquetFile::ParquetFile(fs::path path) {
  check_magic(path);
  auto impl = std::make_shared<Impl>();
  impl->path = std::move(path);
  impl->file_bytes = static_cast<int64_t>(fs::file_size(impl->path));
  impl->file = open_file(impl->path);
  impl->opened = impl->status_now();
  guarded(impl->path, [&] {
    auto reader = impl->open();
    impl->metadata = reader->parquet_reader()->metadata();
    std::shared_ptr<arrow::Schema> schema;
    check_arrow(reader->GetSchema(&schema), impl->path);
    impl->read_columns(*schema);
    impl->read_groups();
  });
  impl_ = std::move(impl);
}

const fs::path& ParquetFile::path() const {
  return impl_->path;
}
const std::vector<ColumnInfo>& ParquetFile::columns() const {
  return impl_->columns;
}
int64_t ParquetFile::num_rows() const {
  return impl_->num_rows;
}
int64_t ParquetFile::num_row_groups() const {
  return std::ssize(impl_->group_rows);
}
const std::vector<int64_t>& ParquetFile::group_rows() const {
  return impl_->group_rows;
}
int64_t ParquetFile::file_bytes() const {
  return impl_->file_bytes;
}

int64_t ParquetFile::decoded_bytes(const Selection& selection, int64_t group) const {
  int64_t bytes = 0;
  for (const ColumnInfo& column : impl_->columns) {
    if (std::ranges::find(selection.columns, column.name) == selection.columns.end()) continue;
    bytes += impl_->num_values(column.name, group) * (column.kind == Column::Float32 ? 4 : 8);
    if (column.is_list || column.is_vectors) bytes += (impl_->group_rows[group] + 1) * 8;
  }
  return bytes;
}

void ParquetFile::check(const Selection& selection) const {
  std::vector<std::string> names;
  for (const ColumnInfo& column : impl_->columns) names.push_back(column.name);
  for (const std::string& wanted : selection.columns) {
    const auto times = std::ranges::count(names, wanted);
    if (times == 0) {
      fail<FileError>("data", "column '{}' is missing in {}{}; it has {}", wanted,
                      impl_->path.string(), did_you_mean(wanted, names), join(names));
    }
    if (times > 1) {
      fail<FileError>("data", "column '{}' is {} times in {}; expected once", wanted, times,
                      impl_->path.string());
    }
    const auto index = std::ranges::find(names, wanted) - names.begin();
    const ColumnInfo& found = impl_->columns[index];
    if (selection.widths.contains(wanted)) {
      if (found.is_vectors || (found.is_list && found.kind == Column::Float32)) continue;
      fail<FileError>("data",
                      "column '{}' of {} is {}; expected vectors: a list of fractions a row, or a "
                      "list of such lists",
                      wanted, impl_->path.string(), found.type);
    }
    if (!found.readable) {
      fail<FileError>("data", "column '{}' of {} is {}; expected numbers or lists of numbers",
                      wanted, impl_->path.string(), found.type);
    }
    if (selection.limits.count(wanted) && found.kind != Column::Int64) {
      fail<FileError>(
          "data",
          "column '{}' of {} is {}; the schema says that it holds ids, so whole numbers "
          "were expected; mend the schema or encode the column again",
          wanted, impl_->path.string(), found.type);
    }
  }
  if (selection.columns.empty()) {
    fail<UsageError>("data", "no column of {} is selected; it has {}", impl_->path.string(),
                     join(names));
  }
}

Rows ParquetFile::read(int64_t group, const Selection& selection) const {
  const int64_t num_rows = impl_->group_rows.at(group);
  auto rows_stream = stream({{group, 0, num_rows}}, selection);
  Rows rows;
  for (const ColumnInfo& info : impl_->columns) {
    if (std::ranges::find(selection.columns, info.name) == selection.columns.end()) continue;
    Column& column = rows.columns[info.name];
    column.kind = info.kind;
    const auto width = selection.widths.find(info.name);
    column.width = width == selection.widths.end() ? 1 : width->second;
    column.is_list = width == selection.widths.end() ? info.is_list : info.is_vectors;
    const auto values =
        static_cast<size_t>(std::min(kMaxReserve, impl_->num_values(info.name, group)));
    info.kind == Column::Float32 ? column.floats.reserve(values) : column.ints.reserve(values);
    if (column.is_list) column.offsets.reserve(std::min(kMaxReserve, num_rows + 1));
  }
  rows_stream->append(num_rows, rows);
  return rows;
}

std::unique_ptr<RowStream> ParquetFile::stream(std::vector<RowRange> segments,
                                               const Selection& selection) const {
  check(selection);
  impl_->check_unchanged();
  std::vector<int> leaves;
  for (const std::string& name : selection.columns) leaves.push_back(impl_->leaves.at(name));
  return guarded(impl_->path, [&]() -> std::unique_ptr<RowStream> {
    return std::make_unique<FileStream>(impl_->path, impl_->open(), std::move(leaves),
                                        std::move(segments), impl_->group_first_row, selection);
  });
}

}  // namespace convoy::data
