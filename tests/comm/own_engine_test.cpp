#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>

#include "convoy/base/error.h"
#include "convoy/comm/rendezvous.h"
#include "tests/comm/ranks_testing.h"

// One of one's own is an Engine and a line; here it is Gloo's, and groups are counted.
namespace convoy::comm {
namespace {

std::atomic<int> num_groups{0};

const EngineEntry kCounted{
    "counted", false,
    [](const Gathering& m) { return std::string(m.point.size > 2 ? "is for two ranks" : ""); },
    [](const Gathering& m) {
      ++num_groups;
      return make_gloo_group(m.point, m.store);
    }};

/// What two or more ranks do in a group that this backend carries; the first one's error.
std::string outcome_over(int size, const std::string& backend) {
  const int port = unused_port();
  std::string what;
  run_threads(size, [&](int rank) {
    try {
      const auto group = connect({.rank = rank, .size = size, .port = port}, backend, at::kCPU);
      expect_collectives(group, 100);
    } catch (const Error& error) {
      if (rank == 0) what = error.what();
    }
  });
  return what;
}

TEST(OwnEngine, CarriesTheGroupsThatAskForIt) {
  add_engine(kCounted);
  EXPECT_EQ(engine_names().back(), "counted");
  EXPECT_EQ(engine_names(/*without_gpus=*/true).back(), "counted");
  EXPECT_EQ(outcome_over(2, "counted"), "");
  EXPECT_EQ(num_groups, 2);
  EXPECT_EQ(outcome_over(2, "auto"), "");
  EXPECT_EQ(num_groups, 2);
  EXPECT_NE(outcome_over(3, "counted").find("backend = counted is for two ranks"),
            std::string::npos);
  EXPECT_THROW(add_engine(kCounted), InternalError);
}

}  // namespace
}  // namespace convoy::comm
