#pragma once

#include <string>
#include <vector>

namespace convoy::report {

/// Maps values to pixels, with ticks at round values.
class ChartAxis {
 public:
  /// `from` and `to` are the pixels of the lowest and the highest value. Ranges without width are
  /// widened, so that every axis can be drawn; a log axis needs low > 0 (else it becomes linear).
  ChartAxis(double low, double high, double from, double to, bool log_scale,
            int about_num_ticks = 5);

  double operator()(double value) const;
  const std::vector<double>& ticks() const { return ticks_; }
  std::string label(double tick) const;

 private:
  void linear_ticks(double low, double high, int about_num_ticks);
  void log_ticks(double low, double high, int about_num_ticks);

  double low_ = 0;
  double high_ = 1;
  double from_;
  double to_;
  bool log_;
  double step_ = 0;  ///< between ticks; 0 when they are powers
  std::vector<double> ticks_;
};

/// A number with about three digits for the eye: "12,345", "0.0123", "4.57", "1.2e-05".
std::string short_number(double value);

}  // namespace convoy::report
