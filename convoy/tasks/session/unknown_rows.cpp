#include "convoy/tasks/session/unknown_rows.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>

#include "convoy/base/text.h"
#include "convoy/data/padding.h"
#include "convoy/data/tools/inspect_rows.h"

namespace convoy::tasks {

namespace {

/// Places of a row that a model reads: without the target, and the last ones where they are too
/// many.
std::span<const int64_t> inputs_read(std::span<const int64_t> places,
                                     const data::LoaderOptions& options) {
  const auto over = std::ssize(places) - options.max_length;
  if (over > 0) places = places.subspan(static_cast<size_t>(over));
  return options.last_is_target && !places.empty() ? places.first(places.size() - 1) : places;
}

/// Counts unknown values of other columns at these places of a row; nothing is read of a row
/// without places.
void count_unknown_values(const data::KnownIds& known, const data::Rows& rows, int64_t row,
                          std::span<const int64_t> places, std::map<std::string, int64_t>& counts) {
  for (const auto& [name, ids] : known.others) {
    const auto& column = rows.columns.at(name);
    const auto strange = [&, &seen = *ids](int64_t place) {
      const auto at = column.begin(row) + (column.is_list ? place : 0);
      return at < column.end(row) &&
             !data::KnownIds::has(seen, column.ints[static_cast<size_t>(at)]);
    };
    const auto read = column.is_list ? places : places.first(std::min<size_t>(1, places.size()));
    counts[name] += std::ranges::count_if(read, strange);
  }
}

}  // namespace

UnknownRows survey_unknown(const data::ParquetFiles& dataset, const std::string& item_column,
                           const data::LoaderOptions& options, const SeenBefore& seen,
                           int64_t most) {
  UnknownRows out;
  const auto& known = options.known;
  data::Selection selection{{item_column}, options.selection.limits};
  for (const auto& [name, ids] : known.others) selection.columns.push_back(name);
  if (seen.lists) {
    for (const auto& name : {seen.owner, seen.count}) selection.columns.push_back(name);
  }
  std::erase_if(selection.limits, [&](const auto& limit) {
    return std::ranges::find(selection.columns, limit.first) == selection.columns.end();
  });
  const auto had_target = [&](const data::Rows& rows, int64_t row, int64_t looked_at) {
    const auto& items = rows.columns.at(item_column);
    const auto begin = items.ints.begin() + items.begin(row), end = begin + looked_at;
    const int64_t target = *(end - 1);
    const auto at = static_cast<size_t>(row);
    if (seen.lists && seen.lists->has(rows.columns.at(seen.owner).ints[at])) {
      const auto had = seen.lists->of(rows.columns.at(seen.owner).ints[at],
                                      rows.columns.at(seen.count).ints[at] - 1);
      return std::ranges::find(had, target) != had.end();
    }
    return !options.whole.empty() && std::find(begin, end - 1, target) != end - 1;
  };
  int64_t first = 0;  // of the rows that are looked at
  const bool keeps_first = options.truncation == data::Truncation::KeepFirst;
  const auto look_at = [&](const data::Rows& rows) {
    data::refuse_inner_padding(dataset, rows, item_column, first);
    first += rows.num_rows;
    const auto& items = rows.columns.at(item_column);
    for (int64_t row = 0; row < rows.num_rows; ++row) {
      const int64_t begin = items.begin(row), length = data::unpadded_length(items, row);
      if (length < (options.last_is_target ? 2 : 1)) {
        ++out.short_rows;
        continue;
      }
      ++out.num_rows;
      out.rows_without_list +=
          seen.lists &&
          !seen.lists->has(rows.columns.at(seen.owner).ints[static_cast<size_t>(row)]);
      const int64_t looked_at = keeps_first ? std::min(length, options.max_length) : length;
      out.seen_targets += options.last_is_target && had_target(rows, row, looked_at);
      auto read = looked_at;
      if (!known.column.empty()) {
        const auto [places, missed] =
            data::known_places(known, items, begin, looked_at, options.last_is_target);
        const auto id = [&](int64_t i) { return items.ints[static_cast<size_t>(begin + i)]; };
        const int64_t inputs = looked_at - (options.last_is_target ? 1 : 0);
        int64_t unknown = 0;
        for (int64_t i = 0; i < inputs; ++i) unknown += !known.knows(id(i));
        out.unknown_items += unknown;
        out.partial_rows += unknown > 0;
        out.empty_rows += unknown == inputs;
        out.unknown_targets += options.last_is_target && !known.knows(id(looked_at - 1));
        read = std::ssize(places);
        count_unknown_values(known, rows, row, inputs_read(places, options), out.unknown_values);
      }
      const int64_t cut = length - looked_at + std::max<int64_t>(0, read - options.max_length);
      out.num_items += length;
      out.cut_items += cut;
      out.cut_rows += cut > 0;
    }
  };
  data::each_rows(dataset, selection, look_at, {}, most);
  return out;
}

std::vector<std::string> UnknownRows::notes(const data::ListLimits& limits, int64_t max_length,
                                            const std::vector<std::string>& targets) const {
  std::vector<std::string> out;
  const auto rows = [](int64_t count) {
    return fmt::format("{} {}", human_count(count), count == 1 ? "row" : "rows");
  };
  if (short_rows > 0) {
    out.push_back(fmt::format(
        "{} {}: {}", rows(short_rows),
        limits.last_is_target ? "of fewer than two items have no target" : "without an item",
        !limits.last_is_target ? "nothing is recommended"
        : targets.empty()      ? "no metric counts them"
                               : "no metric of next items counts them"));
  }
  if (rows_without_list > 0) {
    out.push_back(
        fmt::format("{} of persons without a list of what they had: exclude_seen leaves "
                    "out the items of the row alone",
                    rows(rows_without_list)));
  }
  if (unknown_targets > 0) {
    out.push_back(fmt::format("{} with a target that the model does not know: misses",
                              rows(unknown_targets)));
  }
  if (seen_targets > 0) {
    out.push_back(
        fmt::format("{} with a target that the person had before, which exclude_seen "
                    "leaves out: misses",
                    rows(seen_targets)));
  }
  if (empty_rows > 0) {
    out.push_back(fmt::format("{} without {} that the model knows: {}", rows(empty_rows),
                              limits.last_is_target ? "an item before the target" : "an item",
                              !limits.last_is_target ? "nothing is recommended"
                              : targets.empty()
                                  ? "misses"
                                  : "misses, which no metric of " + join(targets) + " counts"));
  }
  if (unknown_items > 0) {
    out.push_back(fmt::format("{} in {} {} unknown to the model and passed over",
                              plural(unknown_items, "item"), rows(partial_rows),
                              unknown_items == 1 ? "is" : "are"));
  }
  for (const auto& [name, count] : unknown_values) {
    if (count == 0) continue;
    out.push_back(fmt::format("{} of {} {} unknown to the model and {} as none",
                              plural(count, "value"), name, count == 1 ? "is" : "are",
                              count == 1 ? "counts" : "count"));
  }
  if (cut_rows > 0) {
    const auto limit =
        limits.max_length == max_length
            ? fmt::format("max_length = {}", max_length)
            : fmt::format("max_length = {} less the one that is asked for", max_length);
    out.push_back(fmt::format(
        "{} of {} {} longer than {}: their {} {} are read, {} of {} items ({:.1f} %) are not",
        human_count(cut_rows), rows(num_rows), cut_rows == 1 ? "is" : "are", limit,
        limits.truncation == data::Truncation::KeepLast ? "last" : "first", limits.max_length,
        human_count(cut_items), human_count(num_items),
        100.0 * static_cast<double>(cut_items) / static_cast<double>(num_items)));
  }
  return out;
}

}  // namespace convoy::tasks
