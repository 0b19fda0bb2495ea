#include "convoy/bench/collectives_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <tuple>

#include "convoy/base/text.h"
#include "convoy/report/axis.h"
#include "convoy/report/chart.h"
#include "convoy/report/table.h"

namespace convoy::bench {

namespace {

/// Distinct values of `key`, in the order of their first appearance.
template <class Key>
auto distinct(const std::vector<CollectiveTime>& times, const Key& key) {
  std::vector<std::decay_t<decltype(key(times[0]))>> out;
  for (const auto& time : times) {
    if (std::find(out.begin(), out.end(), key(time)) == out.end()) out.push_back(key(time));
  }
  return out;
}

auto kind(const CollectiveTime& time) {
  return std::tuple(time.collective, time.dtype, time.ranks);
}

template <class Keep>
std::vector<CollectiveTime> filter(const std::vector<CollectiveTime>& times, const Keep& keep) {
  std::vector<CollectiveTime> out;
  std::copy_if(times.begin(), times.end(), std::back_inserter(out), keep);
  return out;
}

std::string short_time(double microseconds) {
  if (microseconds < 1000) return fmt::format("{} us", report::short_number(microseconds));
  return fmt::format("{} ms", report::short_number(microseconds / 1000));
}

/// Weighted least squares of t = a + b x with weights 1 / t^2.
CollectiveFit fit(const std::vector<CollectiveTime>& times) {
  double w = 0, wx = 0, wxx = 0, wt = 0, wxt = 0;
  for (const auto& time : times) {
    const auto x = static_cast<double>(time.bytes);
    const double weight = 1 / (time.microseconds * time.microseconds);
    w += weight;
    wx += weight * x;
    wxx += weight * x * x;
    wt += weight * time.microseconds;
    wxt += weight * x * time.microseconds;
  }
  double slope = (w * wxt - wx * wt) / (w * wxx - wx * wx);
  double latency = (wt - slope * wx) / w;
  if (latency < 0) {
    latency = 0;
    slope = wxt / wxx;
  }
  slope = std::max(slope, 1e-9);
  const auto& first = times.front();
  CollectiveFit out{
      first.engine, first.collective, first.dtype, first.ranks, latency, 1e-3 / slope, 0};
  for (const auto& time : times) {
    const double error =
        (latency + slope * static_cast<double>(time.bytes)) / time.microseconds - 1;
    out.worst_error = std::max(out.worst_error, std::abs(error));
  }
  return out;
}

}  // namespace

double CollectiveTime::algbw_gb_per_s() const {
  return microseconds > 0 ? static_cast<double>(bytes) / microseconds * 1e-3 : 0;
}

double CollectiveTime::busbw_gb_per_s() const {
  const double others = static_cast<double>(ranks - 1) / ranks;
  double factor = 1;
  if (collective == "all_reduce") factor = 2 * others;
  if (collective.starts_with("reduce_scatter") || collective.starts_with("all_gather") ||
      collective == "all_to_all") {
    factor = others;
  }
  return algbw_gb_per_s() * factor;
}

std::vector<CollectiveFit> fit_collectives(const std::vector<CollectiveTime>& times) {
  std::vector<CollectiveFit> out;
  const auto key = [](const CollectiveTime& time) { return std::tuple(kind(time), time.engine); };
  for (const auto& wanted : distinct(times, key)) {
    const auto same = filter(times, [&](const auto& time) { return key(time) == wanted; });
    if (distinct(same, [](const auto& time) { return time.bytes; }).size() < 2) continue;
    out.push_back(fit(same));
  }
  return out;
}

std::string collectives_text(const std::vector<CollectiveTime>& times) {
  std::string text;
  for (const auto& wanted : distinct(times, kind)) {
    const auto same = filter(times, [&](const auto& time) { return kind(time) == wanted; });
    const auto engines = distinct(same, [](const auto& time) { return time.engine; });
    report::Table table;
    table.column("size");
    for (const auto& engine : engines) {
      table.column(engine).column("GB/s").column("bus GB/s");
    }
    for (const int64_t bytes : distinct(same, [](const auto& time) { return time.bytes; })) {
      std::vector<std::string> cells{human_bytes(bytes)};
      for (const auto& engine : engines) {
        const auto found = std::find_if(same.begin(), same.end(), [&](const auto& time) {
          return time.bytes == bytes && time.engine == engine;
        });
        const bool known = found != same.end();
        cells.push_back(known ? short_time(found->microseconds) : "-");
        cells.push_back(known ? report::short_number(found->algbw_gb_per_s()) : "-");
        cells.push_back(known ? report::short_number(found->busbw_gb_per_s()) : "-");
      }
      table.row(std::move(cells));
    }
    const auto& [collective, dtype, ranks] = wanted;
    text +=
        fmt::format("{}, {}, {}\n{}\n", collective, dtype, plural(ranks, "rank"), table.to_text());
  }
  report::Table fits;
  for (const char* title : {"engine", "collective", "dtype"})
    fits.column(title, report::Align::kLeft);
  fits.column("ranks").column("latency").column("bandwidth").column("worst error");
  const auto fitted = fit_collectives(times);
  for (const auto& fit : fitted) {
    fits.row({fit.engine, fit.collective, fit.dtype, fmt::format("{}", fit.ranks),
              short_time(fit.latency_microseconds),
              fmt::format("{} GB/s", report::short_number(fit.gb_per_s)),
              fmt::format("{:.0f} %", fit.worst_error * 100)});
  }
  if (!fitted.empty()) {
    text += fmt::format("time = latency + bytes / bandwidth, fitted over the sizes\n{}",
                        fits.to_text());
  }
  return text;
}

Json collectives_json(const std::vector<CollectiveTime>& times) {
  Json list = Json::array();
  for (const auto& time : times) {
    list.push_back({{"engine", time.engine},
                    {"collective", time.collective},
                    {"dtype", time.dtype},
                    {"bytes", time.bytes},
                    {"ranks", time.ranks},
                    {"microseconds", time.microseconds},
                    {"algbw_gb_per_s", time.algbw_gb_per_s()},
                    {"busbw_gb_per_s", time.busbw_gb_per_s()}});
  }
  return list;
}

std::vector<CollectiveTime> collectives_from_json(const Json& json) {
  std::vector<CollectiveTime> out;
  for (const auto& entry : json) {
    out.push_back({entry.at("engine"), entry.at("collective"), entry.at("dtype"), entry.at("bytes"),
                   entry.at("ranks"), entry.at("microseconds")});
  }
  return out;
}

Json fits_json(const std::vector<CollectiveFit>& fits) {
  Json list = Json::array();
  for (const auto& fit : fits) {
    list.push_back({{"engine", fit.engine},
                    {"collective", fit.collective},
                    {"dtype", fit.dtype},
                    {"ranks", fit.ranks},
                    {"latency_microseconds", fit.latency_microseconds},
                    {"bandwidth_gb_per_s", fit.gb_per_s},
                    {"worst_relative_error", fit.worst_error}});
  }
  return list;
}

std::string collectives_svg(const std::vector<CollectiveTime>& all, const std::string& title,
                            const std::string& subtitle) {
  constexpr double kWidth = 420, kHeight = 300, kHead = 56;
  const auto times = filter(all, [](const auto& time) { return time.collective != "copy"; });
  const auto kinds = distinct(times, kind);
  const size_t columns = std::min<size_t>(3, std::max<size_t>(1, kinds.size()));
  const size_t rows = (kinds.size() + columns - 1) / columns;
  report::Svg svg(kWidth * static_cast<double>(columns),
                  kHead + kHeight * static_cast<double>(rows));
  svg.text(20, 26, title, {.size = 17, .bold = true});
  svg.text(20, 46, subtitle);
  for (size_t i = 0; i < kinds.size(); ++i) {
    const auto& [collective, dtype, ranks] = kinds[i];
    report::LineChart chart;
    chart.title = fmt::format("{}, {}, {} ranks", collective, dtype, ranks);
    chart.x_title = "KiB";
    chart.y_title = "bus GB/s";
    chart.log_x = chart.log_y = true;
    const auto same = filter(times, [&](const auto& time) { return kind(time) == kinds[i]; });
    for (const auto& engine : distinct(times, [](const auto& time) { return time.engine; })) {
      report::Series series{engine, {}, {}};
      for (const auto& time : same) {
        if (time.engine != engine) continue;
        series.x.push_back(static_cast<double>(time.bytes) / 1024);
        series.y.push_back(time.busbw_gb_per_s());
      }
      if (!series.x.empty()) chart.series.push_back(std::move(series));
    }
    draw(svg,
         {static_cast<double>(i % columns) * kWidth,
          kHead + static_cast<double>(i / columns) * kHeight, kWidth, kHeight},
         chart);
  }
  return svg.to_string();
}

}  // namespace convoy::bench
