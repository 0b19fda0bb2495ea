#include <convoy/launch/report_failure.h>
#include <convoy/tasks/session/recommender.h>
#include <convoy/tasks/session/train_recommender.h>
#include <fmt/format.h>

using namespace convoy::tasks;

int main() try {
  // XLNet over items, their categories and prices; items are asked for in a random order.
  const auto metrics = train_recommender({{"data.path", "shop"},
                                          {"model.body", "xlnet"},
                                          {"model.masking", "plm"},
                                          {"train.learning_rate", "5e-3"},
                                          {"output.dir", "runs/shop"}});
  fmt::print("NDCG@10 {:.3f}, of popular items {:.3f}\n", metrics.at("eval_ndcg_at_10"),
             metrics.at("eval_popularity_baseline_ndcg_at_10"));

  const Recommender recommender("runs/shop");
  const auto answer =
      recommender.recommend({.items = {"item-3", "item-9"},
                             .features = {{"category-list", {7, 12}}, {"price-list", {0.25, 0.9}}},
                             .top_k = 5,
                             .exclude_seen = true});
  for (const auto& item : answer.items) fmt::print("{:8.3f}  {}\n", item.score, item.item_id);
} catch (const std::exception& error) {
  return convoy::launch::report_failure(error);
}
