#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace convoy::report {

/// Computing of a stage from `begin` to `end`, in any unit of time.
struct TimelineBar {
  double begin = 0, end = 0;
  int64_t micro_batch = 0;
  bool backward = false;
  int virtual_stage = 0;  ///< of the rank: later ones are drawn darker
  bool weight = false;    ///< the second half of a backward
};

/// A row a stage.
using Timeline = std::vector<std::vector<TimelineBar>>;

/// Draws a timeline as text, in which each column is a span of time: 0 to 9 the forward of a
/// micro-batch, a to j its backward, A to J the second half of that, all beginning anew after the
/// tenth, . for the bubble. `end`: time until which is drawn, from 0 on; 0: until the last stage is
/// done.
std::string timeline_text(const Timeline& timeline, int columns, double end = 0);

/// Returns the timelines as a picture, one part for each, all of the same scale. Of those much
/// longer than the shortest one the beginning is shown.
std::string timeline_svg(const std::vector<std::pair<std::string, Timeline>>& timelines,
                         const std::string& title);

/// A step as it went over how it was simulated, stage by stage, both in seconds.
std::string measured_timeline_svg(const Timeline& measured, const Timeline& simulated,
                                  const std::string& title);

}  // namespace convoy::report
