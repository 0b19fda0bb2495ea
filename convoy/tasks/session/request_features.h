#pragma once

#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "convoy/models/session/session.h"
#include "convoy/prepare/items.h"
#include "convoy/prepare/scales.h"
#include "convoy/tasks/session/known_items.h"
#include "convoy/tasks/session/recommender.h"

namespace convoy::tasks {

/// Ids by raw value.
using Ids = std::unordered_map<std::string, int64_t>;

/// Returns the ids of the first `count` names; a number without a name is its own id.
Ids ids_by_name(const prepare::ItemNames& names, int64_t count);

/// Features of requests as the model in a folder reads them.
class RequestFeatures {
 public:
  /// Reads the features of the model in `folder`. `known`: ids by feature that training saw.
  RequestFeatures(const std::filesystem::path& folder, models::SessionConfig config,
                  const std::map<std::string, KnownItems>& known);

  /// Returns the numbers of a request's features, scaled, with categories as ids; values without an
  /// id are added to `unknown`. Throws UsageError for features that the model has not, and for
  /// another number of values than it reads of them.
  std::map<std::string, std::vector<double>> of(const RecommendationRequest& request,
                                                std::vector<std::string>& unknown) const;

 private:
  [[noreturn]] void fail_of_unknown(const std::string& name) const;
  std::map<std::string, std::vector<double>> numbers_of(const RecommendationRequest& request,
                                                        std::vector<std::string>& unknown) const;

  models::SessionConfig config_;
  prepare::Scales scales_;
  std::map<std::string, Ids> categories_;  ///< by feature, where the run has their raw values
  std::set<std::string> of_numbers_;       ///< features whose raw values are all numbers
};

}  // namespace convoy::tasks
