#include <gtest/gtest.h>

#include "convoy/tasks/each_row.h"
#include "convoy/tasks/language/generate.h"
#include "convoy/tasks/session/recommend.h"
#include "convoy/tasks/session/target_metrics.h"
#include "tests/models/testing.h"
#include "tests/train/testing.h"

// What ranks find of their rows goes to rank 0, which tells it, and to no other: what each sends
// grows with its own rows, but for rank 0's.
namespace convoy::tasks {
namespace {

constexpr int kRanks = 3;
constexpr int64_t kRows = 72, kOfRank = kRows / kRanks;

/// What each rank has sent since it began.
using Sent = std::array<int64_t, kRanks>;

class Sending {
 public:
  explicit Sending(const comm::Group& group) : group_(group), before_(group.traffic().bytes) {}
  void tell(Sent& sent) const {
    sent[static_cast<size_t>(group_.rank())] = group_.traffic().bytes - before_;
  }

 private:
  const comm::Group& group_;
  int64_t before_;
};

/// Between few numbers of a row and more of them, by `bytes` each. A little may grow on all alike:
/// texts agree on every token whether all are over.
void expect_only_own_rows(const Sent& few, const Sent& more, int64_t bytes) {
  const int64_t all = more[0] - few[0], own = kOfRank * bytes;
  EXPECT_LT(all, own / 2) << "rank 0 sends no rows";
  for (size_t rank = 1; rank < kRanks; ++rank) {
    EXPECT_EQ(more[rank] - few[rank] - all, own) << "rank " << rank;
  }
}

/// What ranks send in `work` with a trainer over `kRows` sessions.
Sent sent_of_sessions(
    const std::function<void(train::Trainer& trainer, const dataset::Dataset& data)>& work) {
  Sent sent{};
  train::run_ranks(kRanks, [&](const job::Job& job) {
    options::TrainingArguments arguments;
    arguments.output.quiet = true;
    arguments.per_device_eval_batch_size = 4;
    train::Trainer trainer(train::tiny_model(), arguments, nullptr, nullptr, job);
    const Sending sending(trainer.strategy().processes());
    work(trainer, *train::random_sessions(kRows, 50, 8));
    sending.tell(sent);
  });
  return sent;
}

TEST(RowsOfRanks, NumbersGoToRankZeroOnly) {
  const auto sent = [](int64_t width) {
    return sent_of_sessions([&](train::Trainer& trainer, const dataset::Dataset& data) {
      int64_t told = 0;
      each_row(
          trainer, data, 0, width, "session",
          [&](const nn::Bundle&, const at::Tensor& rows) {
            return at::ones({rows.size(0), width});
          },
          [&](int64_t row, std::span<const double>) { EXPECT_EQ(row, told++); });
      EXPECT_EQ(told, trainer.strategy().processes().rank() == 0 ? kRows : 0);
    });
  };
  expect_only_own_rows(sent(1), sent(101), 100 * sizeof(double));
}

TEST(RowsOfRanks, RecommendationsGoToRankZeroOnly) {
  const auto sent = [](int64_t top_k) {
    return sent_of_sessions([&](train::Trainer& trainer, const dataset::Dataset& data) {
      int64_t told = 0;
      recommend(trainer, data, {"items", "", top_k, false},
                [&](const Recommendation& row) { EXPECT_EQ(row.row, told++); });
      EXPECT_EQ(told, trainer.strategy().processes().rank() == 0 ? kRows : 0);
    });
  };
  expect_only_own_rows(sent(3), sent(13), 10 * (sizeof(int64_t) + sizeof(float)));
}

TEST(RowsOfRanks, TextsGoToRankZeroOnly) {
  const auto config = models::small_gpt2({.ids = 40, .width = 8, .heads = 2, .length = 32});
  const auto sent = [&](int64_t max_new_tokens) {
    Sent sent{};
    comm::run_thread_ranks(kRanks, [&](const comm::Group& group) {
      parallel::ReplicaOptions options;
      options.trains = false;
      const auto strategy =
          parallel::make_process_strategy([&] { return config.make_blocks(); }, group, options);
      const std::vector<std::vector<int32_t>> prompts(kRows, {1, 2, 3});
      int64_t told = 0;
      const Sending sending(group);
      generate(*strategy, config, prompts, {.max_new_tokens = max_new_tokens},
               [&](const Generated& text) { EXPECT_EQ(text.prompt, told++); });
      sending.tell(sent);
      EXPECT_EQ(told, group.rank() == 0 ? kRows : 0);
    });
    return sent;
  };
  expect_only_own_rows(sent(1), sent(9), 8 * sizeof(int64_t));
}

TEST(RowsOfRanks, PredictionsGoToRankZeroOnly) {
  const auto sent = [](int64_t rows) {
    Sent sent{};
    comm::run_thread_ranks(kRanks, [&](const comm::Group& group) {
      TargetMetrics metrics({"click", /*binary=*/true});
      const auto answers = at::arange(rows).remainder(2).to(at::kFloat);
      metrics.add({{"prediction.click", answers}, {"answer.click", answers}});
      const Sending sending(group);
      metrics.reduce(group);
      sending.tell(sent);
    });
    return sent;
  };
  expect_only_own_rows(sent(10), sent(10 + kOfRank), 2 * sizeof(float));
}

}  // namespace
}  // namespace convoy::tasks
