#pragma once

#include <string>

namespace convoy::cli {

/// Selection of the ranks' output that is shown besides being kept: torchrun's --redirects, --tee
/// and --local-ranks-filter.
struct RankOutputArguments {
  std::string redirects;  ///< "3", or "0:1,1:2" by local rank: 1 = output, 2 = errors, 3 = both
  std::string tee;        ///< in the same form: output that is shown all the same
  std::string filter;     ///< local ranks that are shown: "0,2"

  bool given() const { return !redirects.empty() || !tee.empty() || !filter.empty(); }
  /// Throws UsageError when the texts make no sense for so many local ranks.
  void check(int num_ranks) const;
  bool shows(int local_rank, bool is_error) const;
};

}  // namespace convoy::cli
