#include "convoy/tasks/session/training_rows.h"

#include <fmt/format.h>

#include <algorithm>

#include "convoy/base/error.h"
#include "convoy/base/text.h"
#include "convoy/data/padding.h"
#include "convoy/data/tools/inspect_rows.h"
#include "convoy/prepare/context.h"
#include "convoy/prepare/seen.h"
#include "convoy/tasks/session/event_weights.h"

namespace convoy::tasks {

namespace {

/// Index of the first target of a row of which [from, to) is read and the first `context` items are
/// context. With items hidden at random all count.
int64_t first_target(const models::SessionConfig& model, int64_t from, int64_t to,
                     int64_t context) {
  if (model.masks_items()) return std::max(from, context);
  return model.train_on_last_item_seq_only ? to - 1 : std::max(from + 1, context);
}

}  // namespace

TrainingRows survey_training(const data::ParquetFiles& data, const models::SessionConfig& model,
                             const data::ListLimits& limits) {
  TrainingRows out;
  const auto& item_column = model.item_feature;
  data::Selection selection{{item_column}, {}};
  for (const auto& feature : model.features) {
    if (!feature.categorical) continue;
    const bool is_item = feature.name == item_column;
    (is_item ? out.seen : out.seen_values[feature.name])
        .assign(static_cast<size_t>(feature.cardinality), false);
    if (!is_item) selection.columns.push_back(feature.name);
    selection.limits[feature.name] = data::IdLimit{feature.cardinality - 1};
  }
  out.counts.assign(out.seen.size(), 0);
  out.target_counts.assign(out.seen.size(), 0);
  EventWeightsSurvey weights(data, model.event_weights);
  const auto& column = model.event_weights.column;
  if (!weights.empty() && std::ranges::count(selection.columns, column) == 0) {
    selection.columns.push_back(column);
    const auto num_values = std::ssize(model.event_weights.of_values);
    if (num_values > 0) selection.limits[column] = data::IdLimit{num_values - 1};
  }
  const bool has_context = data::has_numbers(data, prepare::kNumContext);
  prepare::select_context(data, selection);
  const auto mark = [](const data::Column& column, int64_t begin, int64_t end,
                       std::vector<bool>& seen) {
    for (int64_t i = begin; i < end; ++i) {
      seen[static_cast<size_t>(column.ints[static_cast<size_t>(i)])] = true;
    }
  };
  data::each_rows(data, selection, [&](const data::Rows& rows) {
    const auto& items = rows.columns.at(item_column);
    data::refuse_inner_padding(data, rows, item_column, out.num_rows);
    weights.add(rows, items, out.num_rows);
    for (int64_t row = 0; row < rows.num_rows; ++row) {
      const int64_t context =
          has_context ? rows.columns.at(prepare::kNumContext).ints[static_cast<size_t>(row)] : 0;
      if (context < 0 || context > items.end(row) - items.begin(row)) {
        fail<FileError>("data", "{} has {} = {}; expected at most the items of the row",
                        data::row_text(data, out.num_rows), prepare::kNumContext, context);
      }
      for (int64_t i = items.begin(row) + context; i < items.end(row); ++i) {
        ++out.counts[static_cast<size_t>(items.ints[static_cast<size_t>(i)])];
      }
      const int64_t length = data::unpadded_length(items, row);
      const int64_t over = std::max<int64_t>(0, length - limits.max_length);
      ++out.num_rows;
      out.num_items += length;
      out.cut_rows += over > 0;
      out.cut_items += over;
      out.context_items += std::max<int64_t>(0, context - over);
      const bool trains = length - over >= 2;
      out.short_rows += !trains;
      if (!trains) continue;
      const bool keeps_last = limits.truncation == data::Truncation::KeepLast;
      const int64_t from = keeps_last ? over : 0, to = from + length - over;
      mark(items, items.begin(row) + from, items.begin(row) + to, out.seen);
      for (int64_t i = items.begin(row) + first_target(model, from, to, context);
           i < items.begin(row) + to; ++i) {
        const double weight = weights.of(rows, i);
        out.target_counts[static_cast<size_t>(items.ints[static_cast<size_t>(i)])] += weight > 0;
        weights.add_target(weight);
      }
      for (auto& [name, seen] : out.seen_values) {
        const auto& values = rows.columns.at(name);
        const auto begin = values.begin(row);
        mark(values, values.is_list ? begin + from : begin, values.is_list ? begin + to : begin + 1,
             seen);
      }
    }
  });
  weights.finish();
  out.weights_note = weights.note();
  return out;
}

std::string TrainingRows::warning(int64_t max_length) const {
  if (cut_rows == 0) return "";
  return fmt::format(
      "{} of {} rows are longer than max_length = {} and are cut to that: {} of {} items ({:.1f} "
      "%) "
      "are not read; try a larger --max_length, or sessions with a smaller one",
      human_count(cut_rows), human_count(num_rows), max_length, human_count(cut_items),
      human_count(num_items),
      100.0 * static_cast<double>(cut_items) / static_cast<double>(num_items));
}

}  // namespace convoy::tasks
