#pragma once

#include <CLI/App.hpp>
#include <string>
#include <utility>
#include <vector>

#include "convoy/parallel/pipeline/compare.h"
#include "convoy/report/timeline.h"

namespace convoy::cli {

/// Stages that are given as numbers, without a model: `convoy schedule --stages 4 ...`.
struct StagesAsked {
  /// Stages and micro-batches; without stages there is a model.
  parallel::Parallelism parallelism = {.ranks = {.pipeline = 0}, .micro_batches = 8};
  std::string placement;  ///< empty: each schedule's own
  double memory = 0;
  parallel::StageNumbers numbers = {};
  std::string schedule = "auto";  ///< that is saved
  std::string save;               ///< file
};

void add_stage_options(CLI::App& command, StagesAsked& asked);

inline constexpr const char* kAboutTheLetters =
    "0 to 9: forward of a micro-batch; a to j: its backward, or only its input gradients; A to J: "
    "its\nweight gradients; .: bubble.\n";
inline constexpr const char* kAboutTheFloor =
    "The floor is the time until the first micro-batch reaches a stage, plus the stage's work; the "
    "maximum over stages.\n";

/// Timelines by what they show.
using Pictures = std::vector<std::pair<std::string, report::Timeline>>;

/// Writes the pictures as the SVG file `plot` and prints its name; does nothing if `plot` is empty.
void draw(const std::string& plot, const Pictures& pictures, int num_stages,
          int64_t num_micro_batches);

/// Prints all schedules of such stages, drawn, also as the file `plot`, and saves one of them.
int show_stages(const StagesAsked& asked, const std::string& plot);

}  // namespace convoy::cli
