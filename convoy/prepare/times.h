#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace convoy::prepare {

/// Returns the text of an instant in UTC, of `seconds` after 1970: "2024-01-31 12:00:00", or the
/// number where a calendar of four digits does not reach.
std::string utc_text(double seconds);

/// Returns the seconds after 1970 of a day or an instant in UTC, "2024-01-31" or "2024-01-31
/// 12:00:00" (also with a T, and a Z behind), or of a number of them. Returns nothing for another
/// text.
std::optional<double> parse_utc(const std::string& text);

/// Instants of events. Whole numbers stay exact. Missing ones sort last.
class Times {
 public:
  void append_ticks(int64_t tick);
  void append_seconds(double seconds) { seconds_.push_back(seconds); }
  void append_missing();
  /// Sets the unit of the ticks that follow. A second unit turns all instants into floating-point
  /// seconds.
  void set_unit(bool floating, double ticks_per_second);

  /// Returns -1, 0 or 1 as event a is before, with or after event b.
  int compare(int64_t a, int64_t b) const;
  bool missing(int64_t event) const;
  /// Returns the seconds from event a to event b; 0 when either is missing.
  double between(int64_t a, int64_t b) const;
  /// Returns the seconds since the epoch of the ticks, of an event whose time is not missing.
  double seconds(int64_t event) const;
  int64_t size() const;

 private:
  bool floating() const { return unit_ && floating_; }

  bool unit_ = false;
  bool floating_ = false;
  double per_second_ = 1;
  double mixed_per_second_ = 1;  // of ticks that arrive after a change to floating
  std::vector<int64_t> ticks_;
  std::vector<double> seconds_;
};

}  // namespace convoy::prepare
