#include "convoy/report/timeline.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "convoy/report/svg.h"

namespace convoy::report {

namespace {

constexpr const char* kInk = "#1d2430";
constexpr const char* kSoftInk = "#5c6675";
constexpr const char* kForward[] = {"#8fb8e8", "#4f8bd0", "#2c63a8", "#1b457c"};
constexpr const char* kBackward[] = {"#f3c08b", "#e39a4a", "#bf7424", "#8f5414"};
constexpr const char* kIdle = "#f1f3f6";

double end_of(const Timeline& timeline) {
  double end = 0;
  for (const auto& stage : timeline) {
    for (const auto& bar : stage) end = std::max(end, bar.end);
  }
  return end;
}

const char* color_of(const TimelineBar& bar) {
  const auto shade = static_cast<size_t>(std::clamp(bar.row, 0, 3));
  return bar.backward ? kBackward[shade] : kForward[shade];
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
      const char first = bar.backward ? 'a' : '0';
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
  double end = 0, height = 54;
  for (const auto& [name, timeline] : timelines) {
    end = std::max(end, end_of(timeline));
    height += kHead + static_cast<double>(timeline.size()) * (kBar + kGap) + 10;
  }
  height += 26;
  Svg svg(kLeft + kWidth + 24, height);
  svg.text(18, 30, title, {.size = 16, .color = kInk, .bold = true});
  double y = 48;
  for (const auto& [name, timeline] : timelines) {
    svg.text(18, y + 16, name, {.size = 13, .color = kInk, .bold = true});
    y += kHead;
    const double length = end_of(timeline);
    for (size_t stage = 0; stage < timeline.size(); ++stage) {
      svg.text(18, y + 15, fmt::format("stage {}", stage), {.size = 12, .color = kSoftInk});
      svg.bar({kLeft, y, length / end * kWidth, kBar}, kIdle);
      for (const auto& bar : timeline[stage]) {
        const Box box{kLeft + bar.begin / end * kWidth, y, (bar.end - bar.begin) / end * kWidth,
                      kBar};
        const auto label = std::to_string(bar.micro_batch);
        svg.bar({box.x + 0.5, box.y, std::max(0.5, box.width - 1), box.height}, color_of(bar),
                fmt::format("{} of micro-batch {}", bar.backward ? "backward" : "forward", label));
        if (text_width(label, 11) + 4 < box.width) {
          svg.text(
              box.x + box.width / 2, y + 15, label,
              {.size = 11, .color = bar.row > 1 ? "#ffffff" : kInk, .anchor = Anchor::kMiddle});
        }
      }
      y += kBar + kGap;
    }
    y += 10;
  }
  double x = kLeft;
  for (const auto& [color, text] :
       {std::pair{kForward[0], "forward"}, {kBackward[0], "backward"}, {kIdle, "stands still"}}) {
    svg.bar({x, y, 14, 14}, color);
    svg.text(x + 20, y + 12, text, {.size = 12, .color = kSoftInk});
    x += 40 + text_width(text, 12);
  }
  return svg.to_string();
}

}  // namespace convoy::report
