#pragma once

#include <vector>

#include "convoy/prepare/items.h"
#include "convoy/tasks/session/recommender.h"
#include "tests/cli/command_testing.h"
#include "tests/data/parquet_testing.h"

namespace convoy {

using tasks::RecommendationRequest;
using tasks::Recommender;

class RecommenderTest : public CommandTest {
 protected:
  /// A run in `out` that learnt a little.
  void train(const std::string& more = "", const std::string& folder = "out") {
    if (!fs::exists(folder_ / "syn")) make_sessions(100);
    ASSERT_EQ(run("train" + kTiny + "--max_steps 30 --learning_rate 0.02 --save_steps 15 " + more +
                  " --output_dir " + folder),
              0)
        << output_;
  }

  /// The id of an item in the interactions.
  std::string raw(int64_t id) const {
    return prepare::ItemNames::load(folder_ / "out/items.parquet").raw_id(id);
  }

  /// The evaluation's sessions, as requests.
  std::vector<RecommendationRequest> requests(int64_t top_k = 4) const {
    std::vector<RecommendationRequest> out;
    for (const auto& ids :
         data::testing::read_int_lists(folder_ / "syn/valid.parquet", "item_id-list")) {
      RecommendationRequest request{.top_k = top_k};
      for (const int64_t id : ids) request.items.push_back(raw(id));
      out.push_back(std::move(request));
    }
    return out;
  }
};

}  // namespace convoy
