#include "convoy/report/timeline.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace convoy::report {
namespace {

using testing::HasSubstr;

TEST(Timeline, AColumnIsASliceOfTheTime) {
  const Timeline timeline{{{0, 1, 0}, {1, 2, 11}, {4, 6, 0, true}, {7, 9, 11, true}},
                          {{1, 2, 0}, {2, 4, 0, true}, {4, 5, 11}, {5, 7, 11, true}}};
  EXPECT_EQ(timeline_text(timeline, 9),
            "stage 0  01..aa.bb\n"
            "stage 1  .0aa1bb..\n");
  EXPECT_EQ(timeline_text(timeline, 18),
            "stage 0  0011....aaaa..bbbb\n"
            "stage 1  ..00aaaa11bbbb....\n");
}

TEST(Timeline, APictureNamesWhatItShows) {
  const auto picture = timeline_svg({{"gpipe", {{{0, 1, 3}, {1, 3, 3, true, 1}}}}}, "a < b");
  for (const char* part : {"a &lt; b", ">gpipe<", ">stage 0<", "backward of micro-batch 3",
                           "forward of micro-batch 3", ">stands still<"}) {
    EXPECT_THAT(picture, HasSubstr(part));
  }
}

}  // namespace
}  // namespace convoy::report
