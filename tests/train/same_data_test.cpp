#include <gtest/gtest.h>

#include <array>
#include <functional>
#include <string>

#include "convoy/base/error.h"
#include "tests/train/testing.h"

namespace convoy::train {
namespace {

using Data = std::shared_ptr<dataset::Dataset>;
using Use = std::function<void(const job::Job&, const Data& own, const Data& same)>;

/// What two ranks say of data of which rank 1 has a row less.
std::array<std::string, 2> told(const Use& use) {
  at::set_num_threads(1);
  std::array<std::string, 2> out;
  run_two_ranks([&](const job::Job& job) {
    const int rank = job.environment.rank;
    try {
      use(job, random_sessions(45 - rank, 50, 8), random_sessions(45, 50, 8));
    } catch (const UsageError& error) {
      out.at(static_cast<size_t>(rank)) = error.what();
    }
  });
  return out;
}

void expect_told(const std::string& what, const Use& use) {
  for (const auto& text : told(use)) {
    EXPECT_EQ(text, "[comm] the " + what +
                        " of rank 1 and of rank 0 differ; got 44 rows on rank 1, 45 rows on rank "
                        "0; expected the same on all ranks");
  }
}

// Else one of them waits in a collective for an answer that the other never gives.
TEST(SameData, IsWhatAllRanksMustRead) {
  const auto arguments = short_run(4, 1, 2);
  expect_told("training data", [&](const job::Job& job, const Data& own, const Data& same) {
    Trainer(tiny_model(), arguments, own, same, job).train();
  });
  expect_told("evaluation data", [&](const job::Job& job, const Data& own, const Data& same) {
    Trainer(tiny_model(), arguments, same, own, job).train();
  });
  expect_told("evaluation data", [&](const job::Job& job, const Data& own, const Data&) {
    Trainer(tiny_model(), arguments, nullptr, own, job).evaluate();
  });
  expect_told("data to predict", [&](const job::Job& job, const Data& own, const Data&) {
    Trainer(tiny_model(), arguments, nullptr, nullptr, job)
        .predict(*own, [](const dataset::StepBatch&, const std::vector<nn::Bundle>&) {});
  });
}

}  // namespace
}  // namespace convoy::train
