#include "convoy/report/traced_collectives.h"

#include <gtest/gtest.h>

namespace convoy::report {
namespace {

TEST(TracedCollectives, AreCountedByTheirSizeInAStep) {
  formats::TraceFile trace;
  // Two steps; the sum of 2 MiB is waited for on another thread of the rank, which has no steps.
  trace.threads[1] = {{"start: reduce loss, 12 bytes", 0, 0.5},
                      {"wait: reduce loss", 1, 1.5},
                      {"start: reduce bucket 0, of 2, 2097152 bytes", 2, 2.25},
                      {"forward block 0, micro-batch 0", 3, 4},
                      {"clip", 4, 5},
                      {"start: reduce loss, 12 bytes", 6, 6.5},
                      {"clip", 7, 8}};
  trace.threads[2] = {{"wait: reduce bucket 0, of 2", 3, 5}, {"wait: nobody started it", 5, 9}};
  const auto found = traced_collectives(trace);
  ASSERT_EQ(found.size(), 2U);
  EXPECT_EQ(found[0].most_bytes, 4096);
  EXPECT_EQ(found[0].per_step, 1);
  EXPECT_EQ(found[0].bytes_per_step, 12);
  EXPECT_EQ(found[0].seconds_per_step, 0.75);
  EXPECT_EQ(found[1].most_bytes, 16 << 20);
  EXPECT_EQ(found[1].per_step, 0.5);
  EXPECT_EQ(found[1].bytes_per_step, 1 << 20);
  EXPECT_EQ(found[1].seconds_per_step, 1.125);
}

TEST(TracedCollectives, ATraceWithoutAWholeStepHasNone) {
  formats::TraceFile trace;
  EXPECT_TRUE(traced_collectives(trace).empty());
  trace.threads[1] = {{"start: reduce loss, 12 bytes", 0, 1}};
  EXPECT_TRUE(traced_collectives(trace).empty());
}

}  // namespace
}  // namespace convoy::report
