#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "convoy/base/json.h"

namespace convoy::bench {

/// Time of one collective of one size.
struct CollectiveTime {
  std::string engine;
  std::string collective;  ///< all_reduce, reduce_scatter, all_gather, broadcast, all_to_all,
                           ///< send_receive; or copy: one rank alone copies
  std::string dtype;
  int64_t bytes =
      0;  ///< of the whole: input of reduce_scatter, output of all_gather, else a tensor
  int ranks = 1;
  double microseconds = 0;

  /// Bytes per second over the whole, in 1e9.
  double algbw_gb_per_s() const;
  /// Bandwidth of each link in an ideal algorithm, as NCCL's tests define it: comparable between
  /// collectives and numbers of ranks.
  double busbw_gb_per_s() const;
};

/// time = latency + bytes / bandwidth, fitted over the sizes of one collective and engine.
struct CollectiveFit {
  std::string engine;
  std::string collective;
  std::string dtype;
  int ranks = 1;
  double latency_microseconds = 0;
  double gb_per_s = 0;
  double worst_error = 0;  ///< of the fit at a measured size, relative
};

/// Least squares of the relative error, with neither number below zero. Fewer than two sizes give
/// no fit.
std::vector<CollectiveFit> fit_collectives(const std::vector<CollectiveTime>& times);

/// Tables of times, one for each collective, type and number of ranks: sizes down, engines across.
/// The fits follow.
std::string collectives_text(const std::vector<CollectiveTime>& times);

/// Objects with engine, collective, dtype, bytes, ranks, microseconds, algbw_gb_per_s,
/// busbw_gb_per_s.
Json collectives_json(const std::vector<CollectiveTime>& times);
std::vector<CollectiveTime> collectives_from_json(const Json& json);
Json fits_json(const std::vector<CollectiveFit>& fits);

/// Bus bandwidth over size, a panel for each collective.
std::string collectives_svg(const std::vector<CollectiveTime>& times, const std::string& title,
                            const std::string& subtitle);

}  // namespace convoy::bench
