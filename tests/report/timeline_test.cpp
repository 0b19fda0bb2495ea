#include "convoy/report/timeline.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/report/svg_testing.h"

namespace convoy::report {
namespace {

using testing::HasSubstr;
using testing::Not;

TEST(Timeline, AColumnIsASpanOfTime) {
  const Timeline timeline{{{0, 1, 0}, {1, 2, 11}, {4, 6, 0, true}, {7, 9, 11, true}},
                          {{1, 2, 0}, {2, 4, 0, true}, {4, 5, 11}, {5, 7, 11, true}}};
  EXPECT_EQ(timeline_text(timeline, 9),
            "stage 0  01..aa.bb\n"
            "stage 1  .0aa1bb..\n");
  EXPECT_EQ(timeline_text(timeline, 18),
            "stage 0  0011....aaaa..bbbb\n"
            "stage 1  ..00aaaa11bbbb....\n");
}

TEST(Timeline, SecondHalfOfABackwardIsSeen) {
  const Timeline timeline{{{0, 1, 0}, {1, 2, 0, true}, {3, 4, 0, true, 0, true}}};
  EXPECT_EQ(timeline_text(timeline, 4), "stage 0  0a.A\n");
  const auto picture = timeline_svg({{"zero_bubble", timeline}}, "halves");
  EXPECT_THAT(picture, HasSubstr("weight gradients of micro-batch 0"));
  EXPECT_THAT(picture, HasSubstr(">weight gradients<"));
}

TEST(Timeline, DrawsTheBeginningOfALongOne) {
  const Timeline brief{{{0, 4, 0}}}, longer{{{0, 6, 1}, {6, 8, 2}, {8, 14, 3}}};
  const auto picture = timeline_svg({{"brief", brief}, {"longer", longer}}, "both");
  EXPECT_THAT(picture, HasSubstr("forward of micro-batch 2"));
  EXPECT_THAT(picture, Not(HasSubstr("forward of micro-batch 3")));
  EXPECT_THAT(picture, HasSubstr(">the first 50 %<"));
}

TEST(Timeline, DrawsAMeasuredStepOverItsSimulation) {
  const Timeline measured{{{0, 0.1, 0}, {0.3, 0.5, 0, true}}, {{0.12, 0.3, 0}}};
  const Timeline simulated{{{0, 0.1, 0}, {0.2, 0.4, 0, true}}, {{0.1, 0.2, 0}}};
  EXPECT_EQ(timeline_text(simulated, 5, 0.5), "stage 0  0.aa.\nstage 1  .0...\n");
  const auto picture = measured_timeline_svg(measured, simulated, "1f1b: 2 stages");
  keep("measured.svg", picture);
  EXPECT_TRUE(well_formed(picture));
  for (const char* part : {">1f1b: 2 stages<", ">0 ms<", ">400 ms<"}) {
    EXPECT_EQ(count(picture, part), 1U) << part;
  }
  for (const char* part : {">measured<", ">simulated<"}) EXPECT_EQ(count(picture, part), 2U);
  EXPECT_LT(picture.find(">stage 0<"), picture.find(">stage 1<"));
  EXPECT_EQ(count(picture, "backward of micro-batch 0"), 2U);
}

TEST(Timeline, APictureNamesWhatItShows) {
  const auto picture = timeline_svg({{"gpipe", {{{0, 1, 3}, {1, 3, 3, true, 1}}}}}, "a < b");
  for (const char* part : {"a &lt; b", ">gpipe<", ">stage 0<", "backward of micro-batch 3",
                           "forward of micro-batch 3", ">bubble<"}) {
    EXPECT_THAT(picture, HasSubstr(part));
  }
}

}  // namespace
}  // namespace convoy::report
