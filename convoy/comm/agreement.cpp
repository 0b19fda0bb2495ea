#include "convoy/comm/agreement.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <functional>

#include "convoy/base/error.h"
#include "convoy/base/text.h"

namespace convoy::comm {

namespace {

/// The text of one rank, told to all.
std::string told(const Group& group, int rank, const std::string& text, int64_t bytes) {
  auto letters = at::zeros({bytes}, at::kByte);
  if (group.rank() == rank) std::copy(text.begin(), text.end(), letters.data_ptr<uint8_t>());
  group.broadcast(letters, rank, "compare ranks");
  return {reinterpret_cast<const char*>(letters.data_ptr<uint8_t>()), static_cast<size_t>(bytes)};
}

}  // namespace

void check_agreement(const Group& group, const std::vector<std::string>& entries,
                     const std::string& what) {
  if (group.size() == 1) return;
  const auto text = join(entries, "\n");
  const auto own = at::tensor(
      {static_cast<int64_t>(std::hash<std::string>()(text)), static_cast<int64_t>(text.size())},
      at::kLong);
  const auto all = group.all_gather(own, "compare ranks");
  int other = 0;
  while (other < group.size() && all[other].equal(all[0])) ++other;
  if (other == group.size()) return;
  const auto first = split(told(group, 0, text, all[0][1].item<int64_t>()), '\n');
  const auto second = split(told(group, other, text, all[other][1].item<int64_t>()), '\n');
  size_t i = 0;
  while (i < first.size() && i < second.size() && first[i] == second[i]) ++i;
  const auto entry = [&](const auto& list) { return i < list.size() ? list[i] : "nothing more"; };
  fail<UsageError>("comm",
                   "the {} of rank {} is not that of rank 0; got {} on rank {}, {} on rank 0", what,
                   other, entry(second), other, entry(first));
}

}  // namespace convoy::comm
