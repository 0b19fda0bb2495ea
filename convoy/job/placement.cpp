#include "convoy/job/placement.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cstring>

#include "convoy/base/text.h"
#include "convoy/job/job.h"
#include "convoy/launch/error_file.h"
#include "convoy/machine/limits.h"
#include "convoy/report/table.h"

namespace convoy::job {
namespace {

constexpr int64_t kWords = 16;  // of eight bytes, for each of the three texts

void put(at::Tensor words, const std::string& text) {
  const auto bytes = std::min<size_t>(text.size(), kWords * sizeof(int64_t) - 1);
  std::memcpy(words.data_ptr<int64_t>(), text.data(), bytes);
}

std::string take(const at::Tensor& words) {
  const auto* text = reinterpret_cast<const char*>(words.data_ptr<int64_t>());
  return {text, ::strnlen(text, kWords * sizeof(int64_t))};
}

}  // namespace

std::vector<RankPlacement> gather_placements(const Job& job) {
  if (job.in_threads()) {
    std::vector<RankPlacement> threads;
    for (const auto& device : job.devices) {
      threads.push_back(
          {launch::host_name(), device.str(), compact_numbers(machine::own_cores(), ",")});
    }
    return threads;
  }
  auto own = at::zeros({3, kWords}, at::kLong);
  put(own[0], launch::host_name());
  put(own[1], job.devices.at(0).str());
  put(own[2], compact_numbers(machine::own_cores(), ","));
  if (job.world().size() == 1) return {{take(own[0]), take(own[1]), take(own[2])}};
  const auto all = job.world().all_gather(own, "gather placements").contiguous();
  std::vector<RankPlacement> placements;
  for (int64_t rank = 0; rank < all.size(0); ++rank) {
    placements.push_back({take(all[rank][0]), take(all[rank][1]), take(all[rank][2])});
  }
  return placements;
}

std::string placements_table(const std::vector<RankPlacement>& placements) {
  const bool same =
      std::all_of(placements.begin(), placements.end(), [&](const RankPlacement& rank) {
        return rank.host == placements[0].host && rank.cores == placements[0].cores &&
               rank.device == "cpu";
      });
  if (same) return "";
  report::Table table;
  table.column("rank").column("host", report::Align::kLeft);
  table.column("device", report::Align::kLeft).column("cores", report::Align::kLeft);
  for (size_t rank = 0; rank < placements.size(); ++rank) {
    table.row({std::to_string(rank), placements[rank].host, placements[rank].device,
               placements[rank].cores});
  }
  return table.to_text();
}

}  // namespace convoy::job
