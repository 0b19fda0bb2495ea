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
  return bar.weight ? "weight gradients" : bar.backward ? "backward" : "forward";
}

/// Returns the length of time that a picture shows.
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

constexpr double kWidth = 1000, kBar = 22, kGap = 4;

/// Draws lines of a picture from top to bottom, all over the same time up to `end`.
class Picture {
 public:
  Picture(double height, double end, const std::string& title, double left = 76)
      : svg_(left + kWidth + 24, height), end_(end), left_(left) {
    svg_.text(18, 30, title, {.size = 16, .color = kInk, .bold = true});
  }

  void heading(const std::string& name, const std::string& remark) {
    svg_.text(18, y_ + 16, name, {.size = 13, .color = kInk, .bold = true});
    if (!remark.empty()) {
      svg_.text(left_ + text_width(name, 13), y_ + 16, remark, {.size = 12, .color = kSoftInk});
    }
    y_ += kHead;
  }

  /// Draws bars up to `length`, and the bubble where there are none.
  void line(const std::string& name, const std::vector<TimelineBar>& bars, double length) {
    svg_.text(18, y_ + 15, name, {.size = 12, .color = kSoftInk});
    svg_.bar({left_, y_, length / end_ * kWidth, kBar}, kIdle);
    for (const auto& bar : bars) {
      if (bar.begin >= end_) continue;
      const Box box{left_ + bar.begin / end_ * kWidth, y_,
                    (std::min(bar.end, end_) - bar.begin) / end_ * kWidth, kBar};
      const auto label = std::to_string(bar.micro_batch);
      svg_.bar({box.x + 0.5, box.y, std::max(0.5, box.width - 1), box.height}, color_of(bar),
               fmt::format("{} of micro-batch {}", word_of(bar), label));
      if (text_width(label, 11) + 4 < box.width) {
        svg_.text(box.x + box.width / 2, y_ + 15, label,
                  {.size = 11,
                   .color = bar.virtual_stage > 1 ? "#ffffff" : kInk,
                   .anchor = Anchor::kMiddle});
      }
      halves_ |= bar.weight;
    }
    y_ += kBar + kGap;
  }

  void space(double height) { y_ += height; }

  void marks(const std::vector<std::pair<double, std::string>>& at) {
    for (const auto& [time, name] : at) {
      const double x = left_ + time / end_ * kWidth;
      svg_.line(x, y_, x, y_ + 5, kSoftInk);
      svg_.text(x, y_ + 18, name, {.size = 11, .color = kSoftInk, .anchor = Anchor::kMiddle});
    }
    y_ += 30;
  }

  std::string with_legend() {
    std::vector<std::pair<const char*, const char*>> legend{{kForward[0], "forward"},
                                                            {kBackward[0], "backward"}};
    if (halves_) {
      legend.back().second = "backward, or only its input gradients";
      legend.emplace_back(kWeight[0], "weight gradients");
    }
    legend.emplace_back(kIdle, "bubble");
    double x = left_;
    for (const auto& [color, text] : legend) {
      svg_.bar({x, y_, 14, 14}, color);
      svg_.text(x + 20, y_ + 12, text, {.size = 12, .color = kSoftInk});
      x += 40 + text_width(text, 12);
    }
    return svg_.to_string();
  }

  static constexpr double kHead = 30, kTop = 48, kLegend = 32;

 private:
  Svg svg_;
  double end_, left_;
  double y_ = kTop;
  bool halves_ = false;
};

/// Returns some round times up to `end`, with their names.
std::vector<std::pair<double, std::string>> round_times(double end) {
  double step = std::pow(10, std::floor(std::log10(end)));
  if (end / step < 2.5) step /= 4;
  if (end / step > 8) step *= 2;
  std::vector<std::pair<double, std::string>> out;
  for (int i = 0; i * step <= end; ++i) {
    const bool brief = end < 1;
    out.emplace_back(i * step,
                     fmt::format("{:.4g} {}", i * step * (brief ? 1e3 : 1), brief ? "ms" : "s"));
  }
  return out;
}

}  // namespace

std::string timeline_text(const Timeline& timeline, int columns, double end) {
  if (end <= 0) end = end_of(timeline);
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
  const double end = shown(timelines);
  double height = Picture::kTop + Picture::kLegend;
  for (const auto& [name, timeline] : timelines) {
    height += Picture::kHead + static_cast<double>(timeline.size()) * (kBar + kGap) + 10;
  }
  Picture picture(height, end, title);
  for (const auto& [name, timeline] : timelines) {
    const double whole = end_of(timeline), length = std::min(whole, end);
    picture.heading(name, whole > end ? fmt::format("the first {:.0f} %", 100 * end / whole) : "");
    for (size_t stage = 0; stage < timeline.size(); ++stage) {
      picture.line(fmt::format("stage {}", stage), timeline[stage], length);
    }
    picture.space(10);
  }
  return picture.with_legend();
}

std::string measured_timeline_svg(const Timeline& measured, const Timeline& simulated,
                                  const std::string& title) {
  const double ends[] = {end_of(measured), end_of(simulated)};
  const double end = std::max(ends[0], ends[1]);
  const double stages = static_cast<double>(measured.size());
  Picture picture(
      Picture::kTop + Picture::kLegend + 30 + stages * (Picture::kHead + 2 * (kBar + kGap) + 4),
      end, title, /*left=*/90);
  for (size_t stage = 0; stage < measured.size(); ++stage) {
    picture.heading(fmt::format("stage {}", stage), "");
    picture.line("measured", measured[stage], ends[0]);
    picture.line("simulated", simulated.at(stage), ends[1]);
    picture.space(4);
  }
  picture.marks(round_times(end));
  return picture.with_legend();
}

}  // namespace convoy::report
