#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "convoy/base/error.h"
#include "convoy/base/files.h"
#include "convoy/data/parquet_file.h"
#include "convoy/prepare/sessions.h"
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

inline bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}
#define EXPECT_HAS(text, part) EXPECT_TRUE(convoy::prepare::testing::contains(text, part)) << text

// Users a, b, c; b's events at time 30 tie and must keep their order. In training (all but the last
// of each user) x occurs 4 times, y and z once, w never: ids 1, 2, 3, 4.
inline const char* const kEvents =
    "who,what,when,stars,kind\n"
    "b,z,40,4,new\n"
    "b,x,10,1,old\n"
    "a,x,5,3,old\n"
    "b,y,30,2,\n"
    "b,x,30,3,new\n"
    "a,y,9,5,old\n"
    "c,z,1,1,old\n"
    "b,w,60,6,rare\n"
    "b,x,50,5,new\n";

inline SessionOptions options_for(const std::filesystem::path& input, const Folder& folder) {
  SessionOptions options;
  options.inputs = {input};
  options.output = folder / "out";
  options.columns.user = "who";
  options.columns.item = "what";
  options.columns.time = {"when"};
  options.max_length = 3;
  return options;
}

}  // namespace convoy::prepare::testing
