#include "convoy/data/loader.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <numeric>
#include <utility>

#include "convoy/base/error.h"
#include "convoy/base/text.h"
#include "convoy/base/timing.h"
#include "convoy/data/padding.h"
#include "convoy/data/prefetch.h"

namespace convoy::data {

namespace {

void check_options(const LoaderOptions& options) {
  check_layout(options.layout);
  auto at_least = [](const char* name, int64_t value, int64_t least) {
    if (value < least) {
      fail<UsageError>("data", "{} is {}; expected at least {}", name, value, least);
    }
  };
  at_least("max_length", options.max_length, 1);
  at_least("shuffle_window", options.shuffle_window, 0);
  at_least("memory_budget", options.memory_budget, 0);
  at_least("prefetch_depth", options.prefetch_depth, 1);
}

/// Returns the selected columns, by name.
std::map<std::string, ColumnShape> selected(const ParquetFiles& dataset,
                                            const Selection& selection) {
  dataset.check(selection);
  std::map<std::string, ColumnShape> columns;
  for (const std::string& name : selection.columns) {
    const auto& info = *std::ranges::find(dataset.columns(), name, &ColumnInfo::name);
    const auto width = selection.widths.find(name);
    columns[name] = width == selection.widths.end()
                        ? ColumnShape{info.kind, info.is_list}
                        : ColumnShape{info.kind, info.is_vectors, width->second};
  }
  return columns;
}

std::string repartition_command(const ParquetFiles& dataset, int64_t world) {
  std::string command;
  for (const ParquetFile& file : dataset.files()) {
    if (!command.empty()) command += "; ";
    command +=
        fmt::format("convoy data repartition {} --for-ranks {}", file.path().string(), world);
    if (dataset.files().size() > 3) return command + "; and so on for each file";
  }
  return command;
}

}  // namespace

std::vector<int64_t> row_lengths(const ParquetFiles& dataset, const LoaderOptions& options) {
  const auto columns = selected(dataset, options.selection);
  const bool pads = !options.padded.empty();
  const auto list =
      pads ? columns.find(options.padded)
           : std::ranges::find_if(columns, [](const auto& c) { return c.second.is_list; });
  std::vector<int64_t> out;
  if (list == columns.end()) return out;
  Selection one{.columns = {list->first}};
  const auto width = options.selection.widths.find(list->first);
  if (width != options.selection.widths.end()) one.widths.insert(*width);
  for (int64_t group = 0; group < dataset.num_row_groups(); ++group) {
    const auto rows = dataset.read(group, one);
    const auto& column = rows.columns.at(list->first);
    for (int64_t row = 0; row < rows.num_rows; ++row) {
      const int64_t length =
          pads ? unpadded_length(column, row) : column.end(row) - column.begin(row);
      out.push_back(std::min(length, options.max_length));
    }
  }
  return out;
}

LoadedRows micro_batch_of(const ParquetFiles& dataset, const LoaderOptions& options,
                          const std::vector<int64_t>& rows) {
  MicroBatchBuilder builder(selected(dataset, options.selection), options);
  const auto& sizes = dataset.group_rows();
  std::map<int64_t, Rows> decoded;  // by row group
  for (size_t i = 0; i < rows.size(); ++i) {
    int64_t group = 0, row = rows[i];
    for (; row >= sizes.at(static_cast<size_t>(group)); ++group) {
      row -= sizes[static_cast<size_t>(group)];
    }
    const auto [found, fresh] = decoded.try_emplace(group);
    if (fresh) found->second = dataset.read(group, options.selection);
    builder.add({&found->second, row}, static_cast<int64_t>(i));
  }
  return builder.finish();
}

struct SessionLoader::Impl {
  ParquetFiles dataset;
  LoaderOptions options;
  std::map<std::string, ColumnShape> columns;
  RowSource source;
  bool deals_groups = false;    // whole row groups to ranks
  bool shuffles_whole = false;  // every row may come anywhere in the epoch
  std::vector<std::string> warnings;
  LoaderStats delivered;
  std::optional<EpochOrder> order;
  Prefetch<LoadedStep<LoadedRows>> prefetch;  // last: its thread uses everything above

  Impl(ParquetFiles set, LoaderOptions opts)
      : dataset(std::move(set)),
        options((check_options(opts), std::move(opts))),
        columns(selected(dataset, options.selection)),
        source(dataset, options.selection, options.memory_budget) {
    const int64_t world = options.layout.world, rows = dataset.num_rows();
    if (rows == 0) fail<FileError>("data", "{} holds no rows", dataset.where());
    if (options.every_rank_needs_rows && rows < world) {
      fail<UsageError>("data", "{} holds {} rows for {} ranks; expected at least one row a rank",
                       dataset.where(), rows, world);
    }
    choose_partition();
    choose_window();
    order = make_order(0);
    tell_what_windows_mix();
    warn_about_large_groups();
    warn_about_more_reading();
    if (options.drop_last && last_sample() < options.layout.step_samples()) {
      fail<UsageError>("data",
                       "dropping the last step leaves none: {} gives {} full samples, a step takes "
                       "{}; try a smaller batch or drop_last = false",
                       dataset.where(), last_sample(), options.layout.step_samples());
    }
  }

  void choose_partition() {
    if (options.partition == Partition::Rows) return;
    const int64_t world = options.layout.world, groups = dataset.num_row_groups();
    deals_groups = groups % world == 0;
    if (deals_groups) return;
    warnings.push_back(fmt::format(
        "{} has {} row groups, not a multiple of {} ranks; its rows are cut into equal parts in "
        "memory instead. To cut the file once and for all: {}",
        dataset.where(), groups, world, repartition_command(dataset, world)));
  }

  void choose_window() {
    if (!options.shuffle) return;
    const int64_t bytes = dataset.decoded_bytes(options.selection), rows = dataset.num_rows();
    shuffles_whole =
        options.shuffle_window > 0 ? options.shuffle_window >= rows : bytes <= kShuffledWhole;
    if (shuffles_whole && !source.keeps_all()) {
      fail<UsageError>("data",
                       "{} is shuffled as a whole, for which it takes {} of memory; got a "
                       "memory_budget_mb of {}; try {}, or a shuffle_window of {} to read it as a "
                       "stream",
                       dataset.where(), human_bytes(bytes), options.memory_budget >> 20,
                       (bytes >> 20) + 1,
                       std::clamp<int64_t>(rows / kLanes, 1, kShuffleRows / kLanes));
    }
  }

  void tell_what_windows_mix() {
    if (!options.shuffle || shuffles_whole) return;
    warnings.push_back(fmt::format(
        "{} takes {} decoded and is shuffled within windows: a row moves among the {} rows around "
        "it and comes beside rows from {} other places of the file. Where neighbours are alike "
        "(sorted by time, label or topic), shuffle the file once, or try a larger shuffle_window; "
        "{} or more shuffles all rows, in as much memory",
        dataset.where(), human_bytes(dataset.decoded_bytes(options.selection)),
        human_count(std::min(order->window(), order->lane_rows(0))), order->num_lanes() - 1,
        human_count(dataset.num_rows())));
  }

  void warn_about_large_groups() {
    if (source.keeps_all() || !options.shuffle) return;
    const int64_t lane_rows = std::max<int64_t>(1, dataset.num_rows() / kLanes);
    const int64_t largest = *std::ranges::max_element(dataset.group_rows());
    if (largest <= 4 * lane_rows) return;
    warnings.push_back(fmt::format(
        "{} is read as a stream (decoded it takes more than {}) and its row groups are large (up "
        "to {} rows), so each epoch starts slowly; smaller ones start faster: convoy data "
        "repartition FILE --row-group-size {}",
        dataset.where(), human_bytes(options.memory_budget), human_count(largest), lane_rows));
  }

  void warn_about_more_reading() {
    if (source.keeps_all() || !options.shuffle || options.partition != Partition::Rows) return;
    const int64_t world = options.layout.world, times = world / std::gcd(world, kLanes);
    if (times == 1) return;
    warnings.push_back(fmt::format(
        "{} is read as a stream (decoded it takes more than {}) and {} ranks do not divide its {} "
        "lanes, so each decodes {} times the rows that it trains on; try a number of ranks that "
        "divides {}, or a larger memory_budget_mb",
        dataset.where(), human_bytes(options.memory_budget), world, kLanes, times, kLanes));
  }

  EpochOrder make_order(int64_t epoch) const {
    const int64_t world = options.layout.world;
    auto chosen = OrderOptions::of_all_rows(options.seed, epoch, options.shuffle);
    if (!shuffles_whole) {
      chosen.lanes = kLanes;
      chosen.window = options.shuffle_window;
    }
    if (deals_groups) return EpochOrder::by_row_groups(dataset.group_rows(), chosen, world);
    if (options.partition == Partition::RowGroups) chosen.lanes = world;
    return EpochOrder(dataset.group_rows(), chosen);
  }

  /// Samples that the epoch's steps take, the last one included unless dropped.
  int64_t last_sample() const {
    return options.drop_last ? order->num_dense_samples() : order->num_samples();
  }

  std::optional<LoadedStep<LoadedRows>> make_step(int64_t s0) {
    const int64_t step = options.layout.step_samples(), last = last_sample();
    if (s0 >= last || (options.drop_last && s0 + step > last)) return std::nullopt;
    LoadedStep<LoadedRows> batch{s0, std::min(s0 + step, last), {}};
    const BatchLayout& layout = options.layout;
    std::vector<MicroBatchBuilder> builders(layout.accumulation,
                                            MicroBatchBuilder(columns, options));
    // The micro-batches of micro_batch_samples(), filled side by side: lanes are read in ascending
    // order.
    for (int64_t s = s0 + layout.rank; s < batch.end; s += layout.world) {
      const RowRef row = source.row(s);
      if (row.rows) builders[(s - s0) / layout.world % layout.accumulation].add(row, s - s0);
    }
    for (auto& builder : builders) batch.micro_batches.push_back(builder.finish());
    return batch;
  }
};

SessionLoader::SessionLoader(ParquetFiles dataset, LoaderOptions options)
    : impl_(std::make_unique<Impl>(std::move(dataset), std::move(options))) {}
SessionLoader::~SessionLoader() = default;
SessionLoader::SessionLoader(SessionLoader&&) noexcept = default;
SessionLoader& SessionLoader::operator=(SessionLoader&&) noexcept = default;

int64_t SessionLoader::num_rows() const {
  return impl_->dataset.num_rows();
}
const std::vector<std::string>& SessionLoader::warnings() const {
  return impl_->warnings;
}

std::string SessionLoader::order() const {
  return (impl_->deals_groups ? "whole row groups, " : "") + impl_->order->text();
}

int64_t SessionLoader::steps_per_epoch() const {
  return data::steps_per_epoch(impl_->last_sample(), impl_->options.layout,
                               impl_->options.drop_last);
}

std::vector<RankShare> SessionLoader::partition_summary() const {
  const BatchLayout& layout = impl_->options.layout;
  const int64_t steps = steps_per_epoch();
  const int64_t used = std::min(impl_->last_sample(), steps * layout.step_samples());
  std::vector<RankShare> shares;
  for (int64_t rank = 0; rank < layout.world; ++rank) {
    int64_t rows = used / layout.world + (rank < used % layout.world);
    if (impl_->deals_groups) rows = std::min(rows, impl_->order->lane_rows(rank));
    shares.push_back({rows, steps * layout.accumulation});
  }
  return shares;
}

void SessionLoader::start(int64_t epoch, int64_t s0) {
  Impl& impl = *impl_;
  if (s0 < 0 || s0 > impl.order->num_samples() || epoch < 0) {
    fail<UsageError>("data", "cannot start epoch {} at sample {}; an epoch of {} has {}", epoch, s0,
                     impl.dataset.where(), impl.order->num_samples());
  }
  if (impl.options.partition == Partition::RowGroups && s0 % impl.options.layout.world != 0) {
    fail<UsageError>(
        "data",
        "cannot start at sample {} on {} ranks with partition row_groups; try the same "
        "number of ranks as before, or partition rows",
        s0, impl.options.layout.world);
  }
  impl.prefetch.stop();
  impl.order = impl.make_order(epoch);
  impl.source.start(*impl.order);
  impl.prefetch.start(static_cast<size_t>(impl.options.prefetch_depth), [&impl, s0]() mutable {
    auto batch = impl.make_step(s0);
    if (batch) s0 = batch->end;
    return batch;
  });
}

std::optional<LoadedStep<LoadedRows>> SessionLoader::next() {
  const auto before = std::chrono::steady_clock::now();
  auto batch = impl_->prefetch.next();
  LoaderStats& stats = impl_->delivered;
  stats.wait_seconds += seconds_since(before);
  if (!batch) return batch;
  for (const LoadedRows& micro_batch : batch->micro_batches) {
    stats.rows += micro_batch.num_samples;
    stats.short_rows += micro_batch.short_rows;
    stats.truncated_rows += micro_batch.truncated_rows;
  }
  return batch;
}

void SessionLoader::stop() {
  impl_->prefetch.stop();
}

LoaderStats SessionLoader::stats() const {
  LoaderStats stats = impl_->delivered;
  stats.decoded_rows = impl_->source.decoded_rows();
  stats.held_bytes = impl_->source.held_bytes();
  stats.peak_bytes = impl_->source.peak_bytes();
  return stats;
}

}  // namespace convoy::data
