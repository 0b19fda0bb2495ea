#include "convoy/prepare/times.h"

#include <fmt/format.h>

#include <chrono>
#include <cmath>
#include <cstdio>
#include <ctime>
#include <limits>

#include "convoy/base/text.h"

namespace convoy::prepare {
namespace {

constexpr int64_t kMissingTick = std::numeric_limits<int64_t>::max();
constexpr double kMissingSeconds = std::numeric_limits<double>::infinity();

}  // namespace

std::string utc_text(double seconds) {
  constexpr double kYear0 = -62167219200, kYear10000 = 253402300800;
  if (!(seconds >= kYear0 && seconds < kYear10000)) {
    return fmt::format("{:.15g} seconds after 1970", seconds);
  }
  const auto whole = static_cast<std::time_t>(std::floor(seconds));
  std::tm parts{};
  ::gmtime_r(&whole, &parts);
  return fmt::format("{:04}-{:02}-{:02} {:02}:{:02}:{:02}", parts.tm_year + 1900, parts.tm_mon + 1,
                     parts.tm_mday, parts.tm_hour, parts.tm_min, parts.tm_sec);
}

std::optional<double> parse_utc(const std::string& text) {
  double number = 0;
  if (parse_number(text, number)) {
    return std::isfinite(number) ? std::optional(number) : std::nullopt;
  }
  int year = 0, hour = 0, minute = 0, second = 0, end = 0;
  unsigned month = 0, day = 0;
  if (std::sscanf(text.c_str(), "%4d-%2u-%2u%n", &year, &month, &day, &end) != 3) {
    return std::nullopt;
  }
  auto rest = text.substr(static_cast<size_t>(end));
  if (rest.ends_with('Z')) rest.pop_back();
  if (!rest.empty()) {
    end = 0;
    std::sscanf(rest.c_str() + 1, "%2d:%2d%n:%2d%n", &hour, &minute, &end, &second, &end);
    const bool begins = rest.front() == 'T' || rest.front() == ' ';
    if (!begins || end == 0 || static_cast<size_t>(end) + 1 != rest.size()) return std::nullopt;
  }
  const std::chrono::year_month_day date{std::chrono::year(year), std::chrono::month(month),
                                         std::chrono::day(day)};
  constexpr int kHours = 24, kSixty = 60, kDay = 86400;
  const auto below = [](int value, int limit) { return value >= 0 && value < limit; };
  const bool is_time = below(hour, kHours) && below(minute, kSixty) && below(second, kSixty);
  if (!date.ok() || !is_time) return std::nullopt;
  const int64_t days = std::chrono::sys_days(date).time_since_epoch().count();
  return static_cast<double>(days * kDay + (hour * kSixty + minute) * kSixty + second);
}

void Times::append_missing() {
  if (floating()) {
    seconds_.push_back(kMissingSeconds);
  } else {
    ticks_.push_back(kMissingTick);
  }
}

void Times::set_unit(bool floating, double ticks_per_second) {
  if (!unit_) {
    // Earlier times were all missing, and so have no unit.
    unit_ = true;
    floating_ = floating;
    per_second_ = ticks_per_second;
    if (floating) {
      seconds_.assign(ticks_.size(), kMissingSeconds);
      ticks_.clear();
    }
    return;
  }
  if (floating_ || (!floating && per_second_ == ticks_per_second)) {
    mixed_per_second_ = floating ? 1 : ticks_per_second;
    return;
  }
  for (int64_t tick : ticks_) {
    seconds_.push_back(tick == kMissingTick ? kMissingSeconds
                                            : static_cast<double>(tick) / per_second_);
  }
  ticks_ = {};
  floating_ = true;
  mixed_per_second_ = floating ? 1 : ticks_per_second;
}

void Times::append_ticks(int64_t tick) {
  if (floating()) {
    seconds_.push_back(static_cast<double>(tick) / mixed_per_second_);
  } else {
    ticks_.push_back(tick);
  }
}

int Times::compare(int64_t a, int64_t b) const {
  auto order = [](auto x, auto y) { return x < y ? -1 : (x > y ? 1 : 0); };
  auto i = static_cast<size_t>(a);
  auto j = static_cast<size_t>(b);
  return floating() ? order(seconds_[i], seconds_[j]) : order(ticks_[i], ticks_[j]);
}

bool Times::missing(int64_t event) const {
  auto i = static_cast<size_t>(event);
  return floating() ? seconds_[i] == kMissingSeconds : ticks_[i] == kMissingTick;
}

double Times::between(int64_t a, int64_t b) const {
  if (missing(a) || missing(b)) return 0;
  auto i = static_cast<size_t>(a);
  auto j = static_cast<size_t>(b);
  if (floating()) return seconds_[j] - seconds_[i];
  int64_t difference = 0;
  if (__builtin_sub_overflow(ticks_[j], ticks_[i], &difference)) {
    return (static_cast<double>(ticks_[j]) - static_cast<double>(ticks_[i])) / per_second_;
  }
  return static_cast<double>(difference) / per_second_;
}

double Times::seconds(int64_t event) const {
  const auto i = static_cast<size_t>(event);
  return floating() ? seconds_[i] : static_cast<double>(ticks_[i]) / per_second_;
}

int64_t Times::size() const {
  return static_cast<int64_t>(floating() ? seconds_.size() : ticks_.size());
}

}  // namespace convoy::prepare
