// Recommends in a process of one's own:
//   ./recommend runs/first item-3 item-9      what may follow these two
#include <convoy/tasks/session/recommender.h>
#include <fmt/format.h>

#include <exception>

int main(int argc, char** argv) try {
  if (argc < 3) {
    fmt::print("usage: recommend RUN ITEM...\n");
    return 2;
  }
  const convoy::tasks::Recommender recommender(argv[1]);
  const auto answer =
      recommender.recommend({.items = {argv + 2, argv + argc}, .top_k = 5, .exclude_seen = true});
  for (const auto& id : answer.unknown) fmt::print("unknown: {}\n", id);
  for (const auto& item : answer.items) {
    fmt::print("{:>8.4f}  {} {}\n", item.score, item.item_id, item.name);
  }
  return 0;
} catch (const std::exception& error) {
  fmt::print(stderr, "recommend: {}\n", error.what());
  return 1;
}
