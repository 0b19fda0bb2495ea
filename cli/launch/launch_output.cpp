#include "cli/launch/launch_output.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>

#include "convoy/base/error.h"
#include "convoy/base/text.h"

namespace convoy::cli {
namespace {

/// Parses a local rank that `option` names.
int64_t rank_of(const char* option, const std::string& text, int num_ranks) {
  int64_t rank = 0;
  if (!parse_number(text, rank) || rank < 0) {
    fail<UsageError>("launch", "{} names the rank '{}'; expected ranks such as 0,2", option, text);
  }
  if (rank >= num_ranks) {
    fail<UsageError>("launch", "{} names local rank {}; there are {}: 0 to {}", option, rank,
                     num_ranks, num_ranks - 1);
  }
  return rank;
}

/// Whether `text` names a stream of a rank.
bool names(const char* option, const std::string& text, int local_rank, bool is_error) {
  if (text.empty()) return false;
  int64_t chosen = 0;
  for (const std::string& part : split(text, ',')) {
    const size_t colon = part.find(':');
    int64_t rank = local_rank;
    int64_t streams = 0;
    if ((colon != std::string::npos && !parse_number(part.substr(0, colon), rank)) ||
        !parse_number(colon == std::string::npos ? part : part.substr(colon + 1), streams) ||
        streams < 0 || streams > 3) {
      fail<UsageError>("launch",
                       "{} is '{}'; expected 0, 1 (output), 2 (errors) or 3 (both), or such a "
                       "number by local rank, as in 0:3,1:2",
                       option, text);
    }
    if (rank == local_rank) chosen = streams;
  }
  return (chosen & (is_error ? 2 : 1)) != 0;
}

bool holds(const std::string& list, int local_rank) {
  const auto parts = split(list, ',');
  return std::find(parts.begin(), parts.end(), std::to_string(local_rank)) != parts.end();
}

}  // namespace

void RankOutputArguments::check(int num_ranks) const {
  shows(0, false);
  if (!filter.empty()) {
    for (const auto& part : split(filter, ',')) rank_of("--local-ranks-filter", part, num_ranks);
  }
  for (const auto& [option, text] : {std::pair("--redirects", redirects), {"--tee", tee}}) {
    for (const auto& part : split(text, ',')) {
      const size_t colon = part.find(':');
      if (colon != std::string::npos) rank_of(option, part.substr(0, colon), num_ranks);
    }
  }
}

bool RankOutputArguments::shows(int local_rank, bool is_error) const {
  const bool kept_only = names("--redirects", redirects, local_rank, is_error);
  const bool shown = names("--tee", tee, local_rank, is_error);
  return (filter.empty() || holds(filter, local_rank)) && (shown || !kept_only);
}

}  // namespace convoy::cli
