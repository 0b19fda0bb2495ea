#pragma once

#include <string>
#include <vector>

#include "convoy/nn/losses/top_products.h"
#include "convoy/tasks/session/recommender.h"
#include "convoy/tasks/session/request_features.h"
#include "convoy/tasks/session/request_sessions.h"

// Column c of scores is the item of id c + 1.
namespace convoy::tasks {

/// Items that a request chooses among.
struct ItemChoice {
  nn::TopQuery query;
  bool knows_candidates = true;  ///< one of them at least, where there are some

  /// Returns the choice of a request. `ids`: items that may be recommended. Other candidates are
  /// added to `unknown`; other excluded items are not.
  static ItemChoice of(const RecommendationRequest& request, const RequestSession& session,
                       bool exclude_seen, const Ids& ids, std::vector<std::string>& unknown);

  /// Returns a sentence on why no item is left.
  std::string why_none(const RecommendationRequest& request, bool exclude_seen) const;
};

/// Items of a training, by falling number of events.
class PopularItems {
 public:
  /// Takes the `counts` by id (empty = unknown), and the `ids` of items that may be recommended.
  PopularItems(const std::vector<int64_t>& counts, const Ids& ids);

  bool empty() const { return columns_.empty(); }
  /// Returns the most popular items that `query` leaves, with their counts as scores.
  nn::TopColumns top(const nn::TopQuery& query) const;

 private:
  std::vector<int64_t> counts_;   // by column; 0: not to be recommended
  std::vector<int64_t> columns_;  // of those above 0, by falling count
};

}  // namespace convoy::tasks
