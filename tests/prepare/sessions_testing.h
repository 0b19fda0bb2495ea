#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "convoy/base/error.h"
#include "convoy/base/files.h"
#include "convoy/data/parquet_file.h"
#include "tests/data/parquet_testing.h"

namespace convoy::prepare::testing {

using namespace data::testing;

/// A private folder that goes away with the test.
class Folder {
 public:
  Folder() : path_(unique_folder("convoy-test")) {}
  ~Folder() { std::filesystem::remove_all(path_); }
  std::filesystem::path operator/(const std::string& name) const { return path_ / name; }
  const std::filesystem::path& path() const { return path_; }

  std::filesystem::path write(const std::string& name, const std::string& text) const {
    write_file(path_ / name, text);
    return path_ / name;
  }

 private:
  std::filesystem::path path_;
};

/// The message of the E that f throws; "" when it throws none.
template <class E = FileError, class F>
std::string error_of(F&& f) {
  try {
    f();
  } catch (const E& error) {
    return error.what();
  }
  return "";
}

/// All values of a column as rows; a scalar column gives rows of one.
inline std::vector<std::vector<int64_t>> int_rows(const std::filesystem::path& file,
                                                  const std::string& column) {
  std::vector<std::vector<int64_t>> out;
  const data::ParquetFile parquet(file);
  for (int64_t group = 0; group < parquet.num_row_groups(); ++group) {
    const data::Rows rows = parquet.read(group, data::Selection{{column}, {}});
    const data::Column& values = rows.columns.at(column);
    for (int64_t row = 0; row < rows.num_rows; ++row) {
      out.emplace_back(values.ints.begin() + values.begin(row),
                       values.ints.begin() + values.end(row));
    }
  }
  return out;
}

inline std::vector<std::vector<float>> float_rows(const std::filesystem::path& file,
                                                  const std::string& column) {
  std::vector<std::vector<float>> out;
  const data::ParquetFile parquet(file);
  for (int64_t group = 0; group < parquet.num_row_groups(); ++group) {
    const data::Rows rows = parquet.read(group, data::Selection{{column}, {}});
    const data::Column& values = rows.columns.at(column);
    for (int64_t row = 0; row < rows.num_rows; ++row) {
      out.emplace_back(values.floats.begin() + values.begin(row),
                       values.floats.begin() + values.end(row));
    }
  }
  return out;
}

}  // namespace convoy::prepare::testing
