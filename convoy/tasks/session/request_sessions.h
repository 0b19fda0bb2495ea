#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "convoy/models/session/session.h"
#include "convoy/nn/block.h"
#include "convoy/tasks/session/histories.h"
#include "convoy/tasks/session/known_items.h"
#include "convoy/tasks/session/recommender.h"
#include "convoy/tasks/session/request_features.h"

namespace convoy::tasks {

/// Throws NumericError that names `of`, unless `value` is finite.
void check_finite(const char* of, double value);

/// Session of a request as the model reads it.
struct RequestSession {
  std::vector<int64_t> ids;  ///< the last ones that it knows; none: there is nothing to go by
  std::set<int64_t> seen;    ///< all ids, also those that the model does not read
  int64_t num_cut = 0;       ///< oldest ids that it does not read
  /// Numbers of the other features: of each id or of the session, of a vector one after the other.
  std::map<std::string, std::vector<double>> features;
  std::vector<int64_t> times;  ///< of each id, where the model reads times
  int64_t now = 0;             ///< when it is asked
};

/// Converts requests to sessions of the model in a folder.
class RequestSessions {
 public:
  /// Takes the place `data` of users' histories, which are read once a user is asked for; "" =
  /// beside the data of the run. `ids` of known items must outlive it.
  RequestSessions(const std::filesystem::path& folder, std::filesystem::path data,
                  const models::SessionConfig& config, const KnownIdsOfModel& known,
                  const Ids& ids);

  /// Returns the session of a request; values that the model does not know are added to `unknown`.
  /// Throws UsageError for a request that does not fit the model.
  RequestSession of(const RecommendationRequest& request, std::vector<std::string>& unknown) const;
  /// Returns the model's inputs for sessions with ids.
  nn::Bundle bundle_of(const std::vector<RequestSession>& sessions) const;

 private:
  std::vector<std::string> take_history(const RecommendationRequest& request, RequestSession& out,
                                        std::vector<std::string>& unknown) const;
  void check_times(const RecommendationRequest& request) const;
  /// Returns the numbers of a feature at `places` of the request's items.
  std::vector<double> numbers_at(const models::SessionFeature& feature,
                                 const std::map<std::string, std::vector<double>>& given,
                                 const std::vector<size_t>& places) const;

  std::filesystem::path folder_, data_;
  models::SessionConfig config_;
  int64_t num_ids_;  // of items, with padding
  const Ids& ids_;
  RequestFeatures features_;
  mutable std::once_flag read_histories_;
  mutable std::unique_ptr<const Histories> histories_;  // read where a user is asked for
};

}  // namespace convoy::tasks
