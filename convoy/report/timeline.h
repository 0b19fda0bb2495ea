#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace convoy::report {

/// What a stage does from `begin` to `end`, in any unit of time.
struct TimelineBar {
  double begin = 0, end = 0;
  int64_t micro_batch = 0;
  bool backward = false;
  int row = 0;  ///< of the stage's rows of blocks: later ones are drawn darker
};

/// A row a stage.
using Timeline = std::vector<std::vector<TimelineBar>>;

/// Each column is a slice of the time: 0 to 9 the forward of a micro-batch, a to j its backward,
/// both beginning anew after the tenth, . for standing still.
std::string timeline_text(const Timeline& timeline, int columns);

/// The same as a picture, one part for each timeline, all of the same scale.
std::string timeline_svg(const std::vector<std::pair<std::string, Timeline>>& timelines,
                         const std::string& title);

}  // namespace convoy::report
