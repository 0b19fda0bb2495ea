#pragma once

#include <string>
#include <vector>

#include "convoy/formats/schema.h"
#include "convoy/tasks/session/list_metrics.h"

namespace convoy::tasks {

/// Adds to `facts` what the rows of a training tell of `num_ids` items: who had each, and its
/// categories by the list columns that `schema` tags as such. `owner_column`: of whom a row is; a
/// row is a person of its own where the file has no such whole numbers. Throws FileError.
void read_catalog_facts(const std::string& train, const std::string& item_column,
                        const std::string& owner_column, const formats::Schema& schema,
                        int64_t num_ids, CatalogFacts& facts);

}  // namespace convoy::tasks
