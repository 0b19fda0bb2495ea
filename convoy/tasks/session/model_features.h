#pragma once

#include <string>
#include <vector>

#include "convoy/formats/schema.h"
#include "convoy/models/session/session.h"
#include "convoy/tasks/session/session_arguments.h"

namespace convoy::tasks {

/// Features that a model reads: the items, and those of data.features or all that the schema tags
/// as values. Throws UsageError and FileError that name the option or the file.
std::vector<models::SessionFeature> model_features(const DataArguments& data,
                                                   const models::SessionConfig& model,
                                                   const formats::Schema& schema);

/// Column of the events' times, for a body that reads it; else "".
std::string time_feature(const models::SessionConfig& model, const formats::Schema& schema);

}  // namespace convoy::tasks
