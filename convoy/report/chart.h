#pragma once

#include <string>
#include <vector>

#include "convoy/report/svg.h"

namespace convoy::report {

/// One line of a chart. Points that are not finite leave a gap.
struct Series {
  std::string name;
  std::vector<double> x;
  std::vector<double> y;
};

struct LineChart {
  std::string title;
  std::string subtitle;
  std::string x_title;
  std::string y_title;
  bool log_x = false;
  bool log_y = false;
  std::vector<Series> series;
};

/// Bars of one colour, one for each group. A value that is not finite leaves no bar.
struct BarSeries {
  std::string name;
  std::vector<double> values;
  std::vector<std::string> labels;  ///< above the bars; empty: the values
  std::vector<std::string> notes;   ///< a second, bold line above the labels; may be empty
};

struct BarChart {
  std::string title;
  std::string subtitle;
  std::string y_title;
  std::vector<std::string> groups;
  std::vector<BarSeries> series;
  bool legend = true;
};

/// Returns the colour of the i-th series; colours that also the colour-blind can tell apart.
std::string palette(size_t i);

/// Draws a chart into a part of a picture.
/// Throws InternalError when x and y, or values and groups, differ in number.
void draw(Svg& svg, const Box& box, const LineChart& chart);
void draw(Svg& svg, const Box& box, const BarChart& chart);

/// Returns the chart as a picture of its own.
std::string line_chart(const LineChart& chart, double width = 720, double height = 400);

}  // namespace convoy::report
