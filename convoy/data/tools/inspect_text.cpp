#include <fmt/format.h>

#include <algorithm>

#include "convoy/base/text.h"
#include "convoy/data/tools/inspect.h"

namespace convoy::data {
namespace {

constexpr size_t kShownRanks = 64;

void add_columns(const InspectReport& report, std::string& text) {
  size_t width = 6;
  size_t type_width = 4;
  for (const InspectedColumn& column : report.columns) {
    width = std::max(width, column.name.size());
    type_width = std::max(type_width, column.type.size());
  }
  text += fmt::format("\n  {:<{}}  {:<{}}  tags\n", "column", width, "type", type_width);
  for (const InspectedColumn& column : report.columns) {
    const std::string tags = column.tags.empty() ? "-" : join(column.tags);
    text +=
        fmt::format("  {:<{}}  {:<{}}  {}\n", column.name, width, column.type, type_width, tags);
  }
}

void add_ranks(const InspectReport& report, std::string& text) {
  text += fmt::format(
      "\n  {}, batches of {}:      by rows (convoy)    by row groups (Transformers4Rec)\n"
      "  {:>6}  {:>14}  {:>9}    {:>10}  {:>14}  {:>9}\n",
      plural(std::ssize(report.ranks), "rank"), report.batch_size, "rank", "rows", "batches",
      "row groups", "rows", "batches");
  const size_t shown = std::min(report.ranks.size(), kShownRanks);
  for (size_t rank = 0; rank < shown; ++rank) {
    const DealtShare& share = report.ranks[rank];
    text += fmt::format("  {:>6}  {:>14}  {:>9}    {:>10}  {:>14}  {:>9}\n", rank,
                        human_count(share.rows), human_count(share.batches), share.groups,
                        human_count(share.group_rows), human_count(share.group_batches));
  }
  if (shown < report.ranks.size()) {
    text += fmt::format("  ... {} more ranks (see --json)\n", report.ranks.size() - shown);
  }
}

}  // namespace

std::string to_text(const InspectReport& report) {
  std::string text = fmt::format("{}\n", report.where);
  text += fmt::format("  rows         {}\n", human_count(report.num_rows));
  text += fmt::format("  size         {} in {}\n", human_bytes(report.bytes),
                      plural(report.num_files, "file"));
  text += fmt::format("  row groups   {}", human_count(report.num_groups));
  if (report.num_groups > 0) {
    text += fmt::format(" of {} to {} rows (median {})", human_count(report.min_group_rows),
                        human_count(report.max_group_rows), human_count(report.median_group_rows));
  }
  text += "\n";
  if (!report.list_column.empty()) {
    text += fmt::format("  lengths      {} to {}, mean {:.2f} (of {})\n", report.min_length,
                        report.max_length, report.mean_length, report.list_column);
  }
  if (report.min_id) {
    text += fmt::format("  ids          {} to {}", *report.min_id, *report.max_id);
    if (report.schema_max_id) {
      text += fmt::format("; the schema allows up to {}", *report.schema_max_id);
    }
    if (report.id_column != report.list_column) text += fmt::format(" (of {})", report.id_column);
    text += "\n";
  }
  add_columns(report, text);
  add_ranks(report, text);
  for (const std::string& line : report.advice) text += fmt::format("\n  note: {}\n", line);
  return text;
}

Json to_json(const InspectReport& report) {
  Json json = {{"path", report.where},
               {"files", report.num_files},
               {"rows", report.num_rows},
               {"bytes", report.bytes},
               {"row_groups",
                {{"count", report.num_groups},
                 {"min_rows", report.min_group_rows},
                 {"median_rows", report.median_group_rows},
                 {"max_rows", report.max_group_rows}}},
               {"batch_size", report.batch_size},
               {"columns", Json::array()},
               {"ranks", Json::array()},
               {"advice", report.advice}};
  for (const InspectedColumn& column : report.columns) {
    json["columns"].push_back(
        {{"name", column.name}, {"type", column.type}, {"tags", column.tags}});
  }
  if (!report.list_column.empty()) {
    json["lengths"] = {{"column", report.list_column},
                       {"min", report.min_length},
                       {"mean", report.mean_length},
                       {"max", report.max_length},
                       {"short_rows", report.num_short_rows}};
  }
  if (report.min_id) {
    json["ids"] = {{"column", report.id_column}, {"min", *report.min_id}, {"max", *report.max_id}};
  }
  if (report.schema_max_id) json["ids"]["schema_max"] = *report.schema_max_id;
  for (size_t rank = 0; rank < report.ranks.size(); ++rank) {
    const DealtShare& share = report.ranks[rank];
    json["ranks"].push_back({{"rank", rank},
                             {"by_rows", {{"rows", share.rows}, {"batches", share.batches}}},
                             {"by_row_groups",
                              {{"row_groups", share.groups},
                               {"rows", share.group_rows},
                               {"batches", share.group_batches}}}});
  }
  return json;
}

}  // namespace convoy::data
