#include <gtest/gtest.h>

#include <cstdlib>
#include <string>
#include <thread>

#include "convoy/base/error.h"
#include "convoy/base/fault.h"

namespace convoy {
namespace {

TEST(Fault, NamesARankThatIsThere) {
  const auto said = [](const char* fault, int rank) {
    ::setenv("CONVOY_FAULT", fault, 1);
    std::string message;
    try {
      arm_fault(rank, /*num_ranks=*/2, /*restart_count=*/0);
    } catch (const UsageError& error) {
      message = error.what();
    }
    ::unsetenv("CONVOY_FAULT");
    arm_fault(0, 1, 0);
    return message;
  };
  EXPECT_EQ(said("exit@1:saving:9", 0), "");
  for (const int rank : {0, 1}) {
    EXPECT_EQ(said("exit@2:saving:9", rank),
              "[fault] CONVOY_FAULT = exit@2:saving:9 names rank 2; expected 0 to 1");
    EXPECT_NE(said("exit@-1:saving:9", rank), "");
    EXPECT_EQ(said("exit@1:saving:0", rank),
              "[fault] CONVOY_FAULT = exit@1:saving:0 names step 0; expected 1 or more");
  }
  EXPECT_EQ(said("exit@1:evaluation:0", 0), "") << "it may run without training";
}

TEST(Fault, NamesAStepThatTheRunHas) {
  const auto said = [](const std::string& fault, int64_t first_step) {
    ::setenv("CONVOY_FAULT", fault.c_str(), 1);
    std::string message;
    try {
      refuse_faults_before(first_step);
    } catch (const UsageError& error) {
      message = error.what();
    }
    ::unsetenv("CONVOY_FAULT");
    return message;
  };
  for (const std::string phase : {"forward", "gather", "send", "evaluation"}) {
    EXPECT_EQ(said("nan@0:" + phase + ":0", 0), "");
    EXPECT_NE(said("nan@0:" + phase + ":0", 1).find("names step 0, which this run does not have"),
              std::string::npos);
    EXPECT_EQ(said("nan@0:" + phase + ":1", 1), "");
  }
  EXPECT_EQ(said("nan@0:start:0", 1), "");
  EXPECT_EQ(said("", 1), "");
}

TEST(Fault, HappensInTheThreadThatIsTheRank) {
  ::setenv("CONVOY_FAULT", "nan@1:forward:0", 1);
  arm_fault(/*rank=*/0, /*num_ranks=*/3, /*restart_count=*/0, /*threads=*/true);
  ::unsetenv("CONVOY_FAULT");
  EXPECT_EQ(faulty_thread(), 1);
  for (const int rank : {0, 1, 2}) {
    std::thread([rank] {
      suffer_faults_of(rank);
      EXPECT_EQ(fault_at("forward"), rank == 1 ? Fault::kNan : Fault::kNone) << rank;
    }).join();
  }
  EXPECT_EQ(fault_at("forward"), Fault::kNan) << "this thread works for all";
  arm_fault(0, 1, 0);
  EXPECT_EQ(fault_at("forward"), Fault::kNone);
}

TEST(Fault, NamesTheStartThatSuffersIt) {
  ::setenv("CONVOY_FAULT", "nan@0:forward:0,nan@0:gather:0,nan@0:send:0:2", 1);
  const auto armed_in = [](int start) {
    arm_fault(/*rank=*/0, /*num_ranks=*/1, start);
    std::vector<std::string> out;
    for (const auto* phase : {"forward", "gather", "send"}) {
      if (fault_is_armed(phase)) out.emplace_back(phase);
    }
    return out;
  };
  EXPECT_EQ(armed_in(0), (std::vector<std::string>{"forward", "gather"}));
  EXPECT_EQ(fault_at("gather"), Fault::kNan);
  EXPECT_EQ(armed_in(1), (std::vector<std::string>{}));
  EXPECT_EQ(armed_in(2), (std::vector<std::string>{"send"}));
  ::unsetenv("CONVOY_FAULT");
  arm_fault(0, 1, 0);
}

TEST(Fault, CountsInstructionsOfAStart) {
  ::setenv("CONVOY_FAULT", "exception@0:instruction:3", 1);
  arm_fault(0, 1, 0);
  ::unsetenv("CONVOY_FAULT");
  for (int i = 1; i < 3; ++i) EXPECT_EQ(fault_at("instruction"), Fault::kNone);
  EXPECT_THROW(fault_at("instruction"), std::runtime_error);
  EXPECT_EQ(fault_at("instruction"), Fault::kNone);
  arm_fault(0, 1, 0);
}

}  // namespace
}  // namespace convoy
