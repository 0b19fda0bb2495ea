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

/// Reads the features of items beside data; empty where there are none.
prepare::ItemFeatures item_features(const BesideData& data);

/// Gives the model the features that model.item_tower names, of data beside the schema, and values
/// as if training saw all items. Does nothing where none is named. Throws UsageError for names that
/// the data has not, and for names that are there twice.
void take_item_tower(SessionArguments& arguments);

/// Gives a model that is to be trained the values of its tower's features, once it is known which
/// items training sees: `known.items`, those of earlier runs among them. Numbers are standardised
/// by these items, or as the run in `earlier` did; "" = none. `known` and the model's unseen items
/// then count items that features tell as known. Throws FileError where `earlier` has other
/// features.
void settle_item_tower(const SessionArguments& arguments, const std::filesystem::path& earlier,
                       models::SessionConfig& model, KnownIdsOfModel& known);

/// Gives a model that was trained in `folder` the values of its items, and of those that `newer`
/// data has beyond them. `known` is what KnownIdsOfModel::of_run() returns. It and the model's
/// unseen items then count items that features tell as known. Returns whether there are items
/// beyond those of the run. Does nothing for a model without a tower. Throws FileError for a run
/// without its features, and for newer ones of another form.
bool open_item_tower(const std::filesystem::path& folder, const BesideData& newer,
                     models::SessionConfig& model, KnownIdsOfModel& known);

/// Returns the number of items that a model ranks.
int64_t num_ranked_items(const models::SessionConfig& model);

}  // namespace convoy::tasks
