#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "convoy/data/parquet_files.h"
#include "convoy/formats/schema.h"
#include "convoy/prepare/items.h"

namespace convoy::tasks {

/// Columns that say whose session a row is, by their tags: users', then sessions'.
std::vector<std::string> owner_columns(const formats::Schema& schema);

/// First of owner_columns(); "" = none.
std::string owner_column(const formats::Schema& schema);

/// Users, or sessions, to whom the rows of a table belong.
struct RowOwners {
  std::string column;              ///< of whole numbers, where it has no texts; "" = none
  prepare::ItemNames names;        ///< ids of the interactions by these numbers, where known
  std::vector<std::string> texts;  ///< by row, where the column has texts
  std::string note;                ///< sentence for the user where the ids are not the events'
};

/// Finds the owners of the rows of `dataset`: by a column of the model's schema, else of a schema
/// beside the data, else of the usual names. users.parquet beside the data has the ids of the
/// events. Texts are read if `reads`.
RowOwners find_owners(const data::ParquetFiles& dataset, const formats::Schema& schema,
                      bool reads = true);

}  // namespace convoy::tasks
