#pragma once

#include <string>
#include <vector>

namespace convoy::data {

/// Options for reading a text table.
struct TableOptions {
  char separator = 0;                     ///< 0: guessed from the first line
  std::vector<std::string> column_names;  ///< names for a file without a header line
  bool texts = false;                     ///< values may be long, or read "NA"
  bool lists = false;                     ///< columns of lists in Parquet may be read, too
};

}  // namespace convoy::data
