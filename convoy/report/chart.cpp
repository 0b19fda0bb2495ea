#include "convoy/report/chart.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "convoy/base/error.h"
#include "convoy/report/axis.h"

namespace convoy::report {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr const char* kGrid = "#e6e9ee";
constexpr const char* kBaseLine = "#9aa3b0";

struct Range {
  double low = kInfinity;
  double high = -kInfinity;
  void include(double value) {
    if (!std::isfinite(value)) return;
    low = std::min(low, value);
    high = std::max(high, value);
  }
};

/// Draws title, subtitle and title of the y axis; returns the rest of the box, for the plot.
Box draw_frame(Svg& svg, const Box& box, const std::string& title, const std::string& subtitle,
               const std::string& y_title, bool x_title) {
  double top = box.y + 18;
  if (!title.empty()) {
    svg.text(box.x + 18, top + 12, title, {.size = 16, .color = kInk, .bold = true});
    top += 24;
  }
  if (!subtitle.empty()) {
    svg.text(box.x + 18, top + 10, subtitle, {.size = 12, .color = kSoftInk});
    top += 20;
  }
  if (!y_title.empty()) {
    svg.text(box.x + 18, top + 12, y_title, {.size = 11.5, .color = kSoftInk});
    top += 20;
  }
  top += 6;
  const double bottom = box.bottom() - (x_title ? 50 : 34);
  return {box.x + 18, top, std::max(40.0, box.width - 42), std::max(30.0, bottom - top)};
}

int num_ticks(const Box& plot) {
  return std::clamp(static_cast<int>(plot.height / 42), 2, 8);
}

/// Returns the plot's box without the space for the labels of the y axis.
Box leave_room_for(const ChartAxis& y, Box plot) {
  double widest = 0;
  for (double tick : y.ticks()) widest = std::max(widest, text_width(y.label(tick), 11));
  plot.x += widest + 10;
  plot.width -= widest + 10;
  return plot;
}

void draw_y_axis(Svg& svg, const Box& plot, const ChartAxis& y) {
  for (double tick : y.ticks()) {
    const double at = y(tick);
    svg.line(plot.x, at, plot.right(), at, kGrid);
    svg.text(plot.x - 8, at + 4, y.label(tick),
             {.size = 11, .color = kSoftInk, .anchor = Anchor::kEnd});
  }
}

/// Draws names with coloured squares, from the right end of a line to the left.
void draw_legend(Svg& svg, double right, double y, const std::vector<std::string>& names) {
  double width = 0;
  for (const std::string& name : names) width += text_width(name, 11.5) + 32;
  double x = right - width + 14;
  for (size_t i = 0; i < names.size(); ++i) {
    svg.bar({x, y - 9, 10, 10}, palette(i));
    svg.text(x + 15, y, names[i], {.size = 11.5});
    x += text_width(names[i], 11.5) + 32;
  }
}

/// Moves labels apart that would overlap, keeping their order.
std::vector<double> spread(std::vector<double> places, double distance, double low, double high) {
  std::vector<size_t> order(places.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return places[a] < places[b]; });
  double next = low;
  for (size_t i : order) {
    places[i] = std::max(places[i], next);
    next = places[i] + distance;
  }
  next = high;
  for (auto i = order.rbegin(); i != order.rend(); ++i) {
    places[*i] = std::min(places[*i], next);
    next = places[*i] - distance;
  }
  return places;
}

}  // namespace

std::string palette(size_t i) {
  static const std::vector<std::string> colors = {"#2f6fd0", "#e58a2b", "#2a9d7c", "#b8447a",
                                                  "#7d5bc4", "#8a8f3c", "#4aa8d8", "#6b7280"};
  return colors[i % colors.size()];
}

void draw(Svg& svg, const Box& box, const LineChart& chart) {
  Range x_range;
  Range y_range;
  double widest_name = 0;
  for (const Series& series : chart.series) {
    internal_check(series.x.size() == series.y.size(), "report", "series '{}' has {} x and {} y",
                   series.name, series.x.size(), series.y.size());
    for (size_t i = 0; i < series.x.size(); ++i) {
      if (!std::isfinite(series.x[i]) || !std::isfinite(series.y[i])) continue;
      x_range.include(series.x[i]);
      y_range.include(series.y[i]);
    }
    widest_name = std::max(widest_name, text_width(series.name, 11.5));
  }
  Box plot =
      draw_frame(svg, box, chart.title, chart.subtitle, chart.y_title, !chart.x_title.empty());
  plot.width -= widest_name > 0 ? widest_name + 8 : 0;
  const ChartAxis y(y_range.low, y_range.high, plot.bottom(), plot.y, chart.log_y, num_ticks(plot));
  plot = leave_room_for(y, plot);
  const ChartAxis x(x_range.low, x_range.high, plot.x, plot.right(), chart.log_x,
                    static_cast<int>(plot.width / 90));
  draw_y_axis(svg, plot, y);
  for (double tick : x.ticks()) {
    svg.text(x(tick), plot.bottom() + 18, x.label(tick),
             {.size = 11, .color = kSoftInk, .anchor = Anchor::kMiddle});
  }
  svg.line(plot.x, plot.bottom(), plot.right(), plot.bottom(), kBaseLine);
  if (!chart.x_title.empty()) {
    svg.text(plot.x + plot.width / 2, plot.bottom() + 38, chart.x_title,
             {.size = 11.5, .color = kSoftInk, .anchor = Anchor::kMiddle});
  }

  std::vector<double> label_places;
  for (size_t s = 0; s < chart.series.size(); ++s) {
    const Series& series = chart.series[s];
    std::vector<std::pair<double, double>> piece;
    std::pair<double, double> last = {plot.right(), plot.bottom()};
    const auto end_piece = [&] {
      if (piece.size() == 1) svg.circle(piece[0].first, piece[0].second, 3, palette(s));
      if (piece.size() > 1) svg.polyline(piece, palette(s));
      piece.clear();
    };
    for (size_t i = 0; i < series.x.size(); ++i) {
      if (std::isfinite(series.x[i]) && std::isfinite(series.y[i])) {
        last = {x(series.x[i]), y(series.y[i])};
        piece.push_back(last);
      } else {
        end_piece();
      }
    }
    end_piece();
    label_places.push_back(last.second);
  }
  label_places = spread(label_places, 15, plot.y, plot.bottom());
  for (size_t s = 0; s < chart.series.size(); ++s) {
    svg.text(plot.right() + 8, label_places[s] + 4, chart.series[s].name,
             {.size = 11.5, .color = palette(s), .bold = true});
  }
}

void draw(Svg& svg, const Box& box, const BarChart& chart) {
  Range range;
  range.include(0);
  bool notes = false;
  std::vector<std::string> names;
  for (const BarSeries& series : chart.series) {
    internal_check(series.values.size() == chart.groups.size(), "report",
                   "series '{}' has {} values; expected {}", series.name, series.values.size(),
                   chart.groups.size());
    for (double value : series.values) range.include(value);
    notes |= !series.notes.empty();
    names.push_back(series.name);
  }
  Box plot = draw_frame(svg, box, chart.title, chart.subtitle, chart.y_title, false);
  if (chart.legend && names.size() > 1) draw_legend(svg, box.right() - 22, plot.y - 14, names);
  // The labels of the highest bar stay below the frame's texts.
  const double label_room = notes ? 36 : 20;
  plot.y += label_room;
  plot.height -= label_room;
  const ChartAxis y(range.low, range.high, plot.bottom(), plot.y, false, num_ticks(plot));
  plot = leave_room_for(y, plot);
  draw_y_axis(svg, plot, y);

  const double group_width =
      plot.width / std::max<double>(1, static_cast<double>(chart.groups.size()));
  for (size_t g = 0; g < chart.groups.size(); ++g) {
    std::vector<size_t> present;
    for (size_t s = 0; s < chart.series.size(); ++s) {
      if (std::isfinite(chart.series[s].values[g])) present.push_back(s);
    }
    const double middle = plot.x + group_width * (static_cast<double>(g) + 0.5);
    const double count = std::max<double>(1, static_cast<double>(present.size()));
    const double width = std::min(64.0, group_width * 0.84 / count);
    for (size_t i = 0; i < present.size(); ++i) {
      const BarSeries& series = chart.series[present[i]];
      const double value = series.values[g];
      const double center = middle + (static_cast<double>(i) - (count - 1) / 2) * width;
      const double top = std::min(y(value), y(0));
      const double height = std::abs(y(value) - y(0));
      const std::string label = series.labels.empty() ? short_number(value) : series.labels.at(g);
      svg.bar({center - width * 0.44, top, width * 0.88, height}, palette(present[i]),
              fmt::format("{}, {}: {}", series.name, chart.groups[g], label));
      const double size = std::clamp(width * 0.9 / std::max(1.0, text_width(label, 1)), 7.0, 11.5);
      svg.text(center, top - 6, label, {.size = size, .anchor = Anchor::kMiddle, .halo = true});
      if (!series.notes.empty()) {
        svg.text(
            center, top - 20, series.notes.at(g),
            {.size = 12.5, .color = kInk, .anchor = Anchor::kMiddle, .bold = true, .halo = true});
      }
    }
    svg.text(middle, plot.bottom() + 19, chart.groups[g], {.size = 12, .anchor = Anchor::kMiddle});
  }
  svg.line(plot.x, y(0), plot.right(), y(0), kBaseLine);
}

std::string line_chart(const LineChart& chart, double width, double height) {
  Svg svg(width, height);
  draw(svg, {0, 0, width, height}, chart);
  return svg.to_string();
}

}  // namespace convoy::report
