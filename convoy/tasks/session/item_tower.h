#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "convoy/models/session/session.h"
#include "convoy/prepare/item_features.h"
#include "convoy/tasks/session/known_items.h"
#include "convoy/tasks/session/same_ids.h"
#include "convoy/tasks/session/session_arguments.h"

// Features of items, from the files that convoy data sessions --item-tower writes, for the item
// tower of a session model.
namespace convoy::tasks {

/// Features of items beside data; empty where there are none.
prepare::ItemFeatures item_features(const BesideData& data);

/// Gives the model the features that model.item_tower names, of data beside the schema, and values
/// as if training saw all items. Does nothing where none is named. Throws UsageError for names that
/// are none.
void take_item_tower(SessionArguments& arguments);

/// Gives a model that is to be trained the values of its tower's features, when it is known which
/// items training sees: `known.items`, those of earlier runs among them. Numbers are standardised
/// by these, or as the run in `earlier` did; "" = none. `known` and the model's unseen items then
/// count items as known that features tell. Throws FileError where `earlier` has other features.
void settle_item_tower(const SessionArguments& arguments, const std::filesystem::path& earlier,
                       models::SessionConfig& model, KnownIdsOfModel& known);

/// Gives a model that was trained in `folder` the values of its items, and of those that `newer`
/// data has beyond them. `known`: as KnownIdsOfModel::of_run() has it; it and the model's unseen
/// items then count items as known that features tell. Returns whether there are items beyond those
/// of the run. Does nothing for a model without a tower.
bool open_item_tower(const std::filesystem::path& folder, const BesideData& newer,
                     models::SessionConfig& model, KnownIdsOfModel& known);

/// Number of items that a model ranks.
int64_t num_ranked_items(const models::SessionConfig& model);

}  // namespace convoy::tasks
