#pragma once

#include <string>
#include <vector>

#include "convoy/formats/schema.h"
#include "convoy/tasks/session/list_metrics.h"

namespace convoy::tasks {

/// Adds facts about `num_ids` items from training rows to `facts`: who had each item, and its
/// categories by the list columns that `schema` tags as such. `owner_column` holds the person of a
/// row; without whole numbers there each row is a person of its own. Throws FileError.
void read_catalog_facts(const std::string& train, const std::string& item_column,
                        const std::string& owner_column, const formats::Schema& schema,
                        int64_t num_ids, CatalogFacts& facts);

}  // namespace convoy::tasks
