#include "convoy/data/order.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "convoy/base/error.h"
#include "convoy/base/random.h"

namespace convoy::data {

namespace {

/// Key of one permutation: what is permuted, and where.
uint64_t key_of(uint64_t base, uint64_t what, uint64_t a, uint64_t b) {
  return hash_combine(hash_combine(hash_combine(base, what), a), b);
}

constexpr int64_t kReadRows = 1024;  // window without shuffling: only what is read at a time
constexpr uint64_t kGroups = 1;
constexpr uint64_t kWindows = 2;
constexpr uint64_t kLaneOrder = 3;

/// Returns the numbers in [begin, end), permuted by the key where `shuffle`.
std::vector<int64_t> numbers(int64_t begin, int64_t end, bool shuffle, uint64_t key) {
  std::vector<int64_t> out(static_cast<size_t>(end - begin));
  Permutation order(out.size(), key);
  for (size_t i = 0; i < out.size(); ++i) {
    out[i] = begin + static_cast<int64_t>(shuffle ? order(i) : i);
  }
  return out;
}

void check_options(const OrderOptions& options) {
  if (options.lanes < 1 || options.window < 0 || options.epoch < 0) {
    fail<UsageError>("data",
                     "the order has {} lanes, window {}, epoch {}; expected >= 1, >= 0, >= 0",
                     options.lanes, options.window, options.epoch);
  }
}

uint64_t base_key(const OrderOptions& options) {
  return hash_combine(options.seed, static_cast<uint64_t>(options.epoch));
}

}  // namespace

void check_layout(const BatchLayout& layout) {
  if (layout.world < 1 || layout.rank < 0 || layout.rank >= layout.world) {
    fail<UsageError>("data", "rank {} of {} makes no sense; expected 0 <= rank < ranks",
                     layout.rank, layout.world);
  }
  if (layout.accumulation < 1 || layout.per_device_batch < 1) {
    fail<UsageError>("data", "batch {} x accumulation {} makes no sense; expected both at least 1",
                     layout.per_device_batch, layout.accumulation);
  }
  int64_t product = 0;
  if (__builtin_mul_overflow(layout.accumulation, layout.world, &product) ||
      __builtin_mul_overflow(product, layout.per_device_batch, &product) ||
      product > std::numeric_limits<int32_t>::max()) {
    fail<UsageError>("data", "a step of {} x {} x {} samples is too large; try a smaller batch",
                     layout.accumulation, layout.world, layout.per_device_batch);
  }
}

EpochOrder::EpochOrder(std::vector<int64_t> group_rows, const OrderOptions& options) {
  check_options(options);
  const uint64_t key = base_key(options);
  const bool streams = options.shuffle && options.window != kWholeLane;
  lay(group_rows,
      numbers(0, static_cast<int64_t>(group_rows.size()), streams, key_of(key, kGroups, 0, 0)));
  const int64_t lanes = options.shuffle ? options.lanes : 1;
  const int64_t short_rows = num_rows() / lanes, long_lanes = num_rows() % lanes;
  lanes_.resize(static_cast<size_t>(lanes));
  int64_t place = 0;
  for (int64_t lane : numbers(0, lanes, streams, key_of(key, kLaneOrder, 0, 0))) {
    lanes_[lane] = {place, short_rows + (lane < long_lanes)};
    place += lanes_[lane].rows;
  }
  finish(options);
}

EpochOrder EpochOrder::by_row_groups(const std::vector<int64_t>& group_rows,
                                     const OrderOptions& options, int64_t world) {
  check_options(options);
  const auto num_groups = static_cast<int64_t>(group_rows.size());
  if (world < 1 || num_groups == 0 || num_groups % world != 0) {
    fail<UsageError>("data", "{} row groups cannot be dealt to {} ranks; expected a multiple",
                     num_groups, world);
  }
  EpochOrder order;
  std::vector<int64_t> sequence;
  const int64_t share = num_groups / world;
  int64_t start = 0;
  for (int64_t rank = 0; rank < world; ++rank) {
    const uint64_t key = key_of(base_key(options), kGroups, static_cast<uint64_t>(world),
                                static_cast<uint64_t>(rank));
    int64_t rows = 0;
    for (int64_t group : numbers(rank * share, (rank + 1) * share,
                                 options.shuffle && options.window != kWholeLane, key)) {
      sequence.push_back(group);
      rows += group_rows[group];
    }
    order.lanes_.push_back({start, rows});
    start += rows;
  }
  order.lay(group_rows, std::move(sequence));
  order.finish(options);
  return order;
}

void EpochOrder::lay(const std::vector<int64_t>& group_rows, std::vector<int64_t> groups) {
  sequence_ = std::move(groups);
  group_start_ = {0};
  for (int64_t rows : group_rows) {
    internal_check(rows >= 0, "data", "a row group has {} rows", rows);
    group_start_.push_back(group_start_.back() + rows);
  }
  sequence_start_ = {0};
  for (int64_t group : sequence_) {
    sequence_start_.push_back(sequence_start_.back() + group_rows[group]);
  }
}

void EpochOrder::finish(const OrderOptions& options) {
  shuffle_ = options.shuffle;
  key_ = base_key(options);
  window_ = !shuffle_            ? kReadRows
            : options.window > 0 ? options.window
                                 : std::max<int64_t>(1, kShuffleRows / num_lanes());
  num_dense_samples_ = std::numeric_limits<int64_t>::max();
  for (int64_t lane = 0; lane < num_lanes(); ++lane) {
    const int64_t rows = lane_rows(lane);
    num_dense_samples_ = std::min(num_dense_samples_, rows * num_lanes() + lane);
    if (rows > 0) num_samples_ = std::max(num_samples_, (rows - 1) * num_lanes() + lane + 1);
  }
  num_dense_samples_ = std::min(num_dense_samples_, num_samples_);
}

int64_t EpochOrder::place_in_stretch(int64_t lane, int64_t place) const {
  if (!shuffle_) return place;
  const int64_t number = place / window_, begin = number * window_;
  const int64_t rows = std::min(window_, lane_rows(lane) - begin);
  Permutation order(static_cast<uint64_t>(rows), key_of(key_, kWindows, static_cast<uint64_t>(lane),
                                                        static_cast<uint64_t>(number)));
  return begin + static_cast<int64_t>(order(static_cast<uint64_t>(place - begin)));
}

std::string EpochOrder::text() const {
  if (shuffle_ && window_ == kWholeLane && num_lanes() == 1) return "one permutation of all rows";
  uint64_t groups = 0;
  for (int64_t first : group_start_) groups = hash_combine(groups, static_cast<uint64_t>(first));
  const auto window = window_ == kWholeLane ? "all rows" : std::to_string(window_);
  return fmt::format("{} lanes in a drawn order, shuffle_window {}, {} row groups ({:08x})",
                     num_lanes(), window, sequence_.size(), groups >> 32);
}

int64_t EpochOrder::row_of(int64_t s) const {
  internal_check(s >= 0 && s < num_samples_, "data", "sample {} of {}", s, num_samples_);
  const int64_t lane = lane_of(s), place = s / num_lanes();
  if (place >= lane_rows(lane)) return -1;
  const int64_t at = lanes_[lane].start + place_in_stretch(lane, place);
  auto after = std::upper_bound(sequence_start_.begin(), sequence_start_.end(), at);
  const auto index = after - sequence_start_.begin() - 1;
  return group_start_[sequence_[index]] + at - sequence_start_[index];
}

std::vector<RowRange> EpochOrder::segments_of_lane(int64_t lane) const {
  std::vector<RowRange> segments;
  const int64_t begin = lanes_[lane].start, end = begin + lanes_[lane].rows;
  auto first = std::upper_bound(sequence_start_.begin(), sequence_start_.end(), begin);
  auto index = static_cast<size_t>(first - sequence_start_.begin() - 1);
  for (; index < sequence_.size() && sequence_start_[index] < end; ++index) {
    const int64_t start = sequence_start_[index];
    const RowRange segment{sequence_[index], std::max<int64_t>(0, begin - start),
                           std::min(sequence_start_[index + 1], end) - start};
    if (segment.begin < segment.end) segments.push_back(segment);
  }
  return segments;
}

std::vector<int64_t> micro_batch_samples(const BatchLayout& layout, int64_t s0, int64_t end,
                                         int64_t micro_batch) {
  std::vector<int64_t> samples;
  const int64_t stride = layout.accumulation * layout.world;
  const int64_t stop = std::min(end, s0 + layout.step_samples());
  for (int64_t s = s0 + micro_batch * layout.world + layout.rank; s < stop; s += stride) {
    samples.push_back(s);
  }
  return samples;
}

int64_t steps_per_epoch(int64_t num_samples, const BatchLayout& layout, bool drop_last) {
  check_layout(layout);
  const int64_t step = layout.step_samples();
  return drop_last ? num_samples / step : num_samples / step + (num_samples % step != 0);
}

}  // namespace convoy::data
