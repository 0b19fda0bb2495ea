#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cstdlib>
#include <thread>

#include "convoy/base/activity.h"
#include "convoy/base/error.h"
#include "convoy/base/fault.h"
#include "tests/parallel_torch/pipeline_testing.h"

// Stages that do not come, fail, or make no numbers.
namespace convoy::parallel {
namespace {

using testing::HasSubstr;

/// Two stages that have `each` make the first step, with a second's patience.
void run_first_step(const std::function<void(int rank, const std::function<void()>& step)>& each) {
  run_pipeline_ranks(2, 1, std::chrono::seconds(1), [&](const comm::Groups& groups, int rank) {
    const PipelineTrial trial;
    Replica replica(trial.blocks(), groups, trial.options());
    replica.start();
    groups.world.barrier("made");
    each(rank, [&] { replica.step(trial.batches(0, 0), input_of_step(0), {}); });
  });
}

TEST(PipelineFaults, AStageThatDoesNotComeIsNamed) {
  std::string told;
  run_first_step([&](int rank, const auto& step) {
    if (rank == 1) return std::this_thread::sleep_for(std::chrono::seconds(3));
    try {
      step();
    } catch (const CommunicationError& error) {
      told = error.what();
    }
  });
  EXPECT_THAT(told, HasSubstr("micro-batch "));
  EXPECT_THAT(told, HasSubstr("rank 1"));
}

TEST(PipelineFaults, AFaultMayHappenWhereAStageSends) {
  ::setenv("CONVOY_FAULT", "exception@0:send:1", 1);
  arm_fault(/*rank=*/0, /*num_ranks=*/1, /*restart_count=*/0);
  tell_step(1);
  std::array<std::string, 2> told;
  run_first_step([&](int rank, const auto& step) {
    try {
      step();
    } catch (const std::exception& error) {
      told[static_cast<size_t>(rank)] = error.what();
    }
  });
  ::unsetenv("CONVOY_FAULT");
  arm_fault(0, 1, 0);
  EXPECT_EQ(told[0], "[fault] injected exception in send");
  EXPECT_THAT(told[1], HasSubstr("micro-batch "));
}

TEST(PipelineFaults, ANumberThatIsNotFiniteIsToldOfTheStageThatMadeIt) {
  for (const std::string schedule : {"1f1b", "gpipe", "interleaved"}) {
    for (const int spoilt : {0, 1, 2, 3}) {
      const PipelineTrial trial{.schedule = schedule, .data = 2};
      std::atomic<int> told{0};
      run_pipeline_ranks(trial.stages, trial.data, std::chrono::seconds(20),
                         [&](const comm::Groups& groups, int rank) {
                           Replica replica(trial.blocks(), groups, trial.options());
                           replica.start();
                           if (rank == spoilt) replica.flat().fill(NAN);
                           try {
                             replica.step(trial.batches(0, groups.mesh.place(parallel::kRows)),
                                          input_of_step(0), {});
                           } catch (const NumericError& error) {
                             const auto who = fmt::format("not finite on rank {};", spoilt);
                             EXPECT_THAT(error.what(), HasSubstr(who)) << schedule;
                             ++told;
                           }
                         });
      EXPECT_EQ(told, 4);
    }
  }
}

}  // namespace
}  // namespace convoy::parallel
