#include "convoy/report/timeline.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "convoy/report/svg.h"

namespace convoy::report {

namespace {

constexpr const char* kForward[] = {"#8fb8e8", "#4f8bd0", "#2c63a8", "#1b457c"};
constexpr const char* kBackward[] = {"#f3c08b", "#e39a4a", "#bf7424", "#8f5414"};
constexpr const char* kWeight[] = {"#a9d6b0", "#6db67a", "#3f8d4e", "#27673a"};
constexpr const char* kIdle = "#f1f3f6";

double end_of(const Timeline& timeline) {
  double end = 0;
  for (const auto& stage : timeline) {
    for (const auto& bar : stage) end = std::max(end, bar.end);
  }
  return end;
}

const char* color_of(const TimelineBar& bar) {
  const auto shade = static_cast<size_t>(std::clamp(bar.virtual_stage, 0, 3));
  return bar.weight ? kWeight[shade] : bar.backward ? kBackward[shade] : kForward[shade];
}

const char* word_of(const TimelineBar& bar) {
  return bar.weight ? "weight half of the backward" : bar.backward ? "backward" : "forward";
}

/// How long the time is that a picture shows.
double shown(const std::vector<std::pair<std::string, Timeline>>& timelines) {
  constexpr double kTimesTheShortest = 1.75;
  double shortest = 0, longest = 0;
  for (const auto& [name, timeline] : timelines) {
    const double end = end_of(timeline);
    shortest = shortest == 0 ? end : std::min(shortest, end);
    longest = std::max(longest, end);
  }
  return std::min(longest, kTimesTheShortest * shortest);
}

}  // namespace

std::string timeline_text(const Timeline& timeline, int columns) {
  const double end = end_of(timeline);
  std::string out;
  for (size_t stage = 0; stage < timeline.size(); ++stage) {
    std::string line(static_cast<size_t>(columns), '.');
    for (const auto& bar : timeline[stage]) {
      const auto column = [&](double time) {
        return static_cast<size_t>(std::lround(time / end * columns));
      };
      const char first = bar.weight ? 'A' : bar.backward ? 'a' : '0';
      for (size_t c = column(bar.begin); c < column(bar.end); ++c) {
        line[c] = static_cast<char>(first + bar.micro_batch % 10);
      }
    }
    out += fmt::format("stage {:<3}{}\n", stage, line);
  }
  return out;
}

std::string timeline_svg(const std::vector<std::pair<std::string, Timeline>>& timelines,
                         const std::string& title) {
  constexpr double kLeft = 76, kWidth = 1000, kBar = 22, kGap = 4, kHead = 30;
  const double end = shown(timelines);
  double height = 54;
  bool halves = false;
  for (const auto& [name, timeline] : timelines) {
    for (const auto& stage : timeline) {
      halves |= std::any_of(stage.begin(), stage.end(), [](const auto& bar) { return bar.weight; });
    }
    height += kHead + static_cast<double>(timeline.size()) * (kBar + kGap) + 10;
  }
  height += 26;
  Svg svg(kLeft + kWidth + 24, height);
  svg.text(18, 30, title, {.size = 16, .color = kInk, .bold = true});
  double y = 48;
  for (const auto& [name, timeline] : timelines) {
    const double whole = end_of(timeline), length = std::min(whole, end);
    svg.text(18, y + 16, name, {.size = 13, .color = kInk, .bold = true});
    if (whole > end) {
      svg.text(kLeft + text_width(name, 13), y + 16,
               fmt::format("the first {:.0f} %", 100 * end / whole),
               {.size = 12, .color = kSoftInk});
    }
    y += kHead;
    for (size_t stage = 0; stage < timeline.size(); ++stage) {
      svg.text(18, y + 15, fmt::format("stage {}", stage), {.size = 12, .color = kSoftInk});
      svg.bar({kLeft, y, length / end * kWidth, kBar}, kIdle);
      for (const auto& bar : timeline[stage]) {
        if (bar.begin >= end) continue;
        const Box box{kLeft + bar.begin / end * kWidth, y,
                      (std::min(bar.end, end) - bar.begin) / end * kWidth, kBar};
        const auto label = std::to_string(bar.micro_batch);
        svg.bar({box.x + 0.5, box.y, std::max(0.5, box.width - 1), box.height}, color_of(bar),
                fmt::format("{} of micro-batch {}", word_of(bar), label));
        if (text_width(label, 11) + 4 < box.width) {
          svg.text(box.x + box.width / 2, y + 15, label,
                   {.size = 11,
                    .color = bar.virtual_stage > 1 ? "#ffffff" : kInk,
                    .anchor = Anchor::kMiddle});
        }
      }
      y += kBar + kGap;
    }
    y += 10;
  }
  double x = kLeft;
  std::vector<std::pair<const char*, const char*>> legend{{kForward[0], "forward"},
                                                          {kBackward[0], "backward"}};
  if (halves) {
    legend.back().second = "backward, or its half that a stage waits for";
    legend.emplace_back(kWeight[0], "its other half: gradients of weights");
  }
  legend.emplace_back(kIdle, "bubble");
  for (const auto& [color, text] : legend) {
    svg.bar({x, y, 14, 14}, color);
    svg.text(x + 20, y + 12, text, {.size = 12, .color = kSoftInk});
    x += 40 + text_width(text, 12);
  }
  return svg.to_string();
}

}  // namespace convoy::report
