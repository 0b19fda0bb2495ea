#include "convoy/report/table.h"

#include <algorithm>
#include <numeric>

#include "convoy/base/error.h"
#include "convoy/base/text.h"

namespace convoy::report {
namespace {

using Cells = std::vector<std::string>;

std::string pad(const std::string& text, size_t width, Align align) {
  const std::string blanks(width - std::min(width, display_width(text)), ' ');
  return align == Align::kLeft ? text + blanks : blanks + text;
}

std::string one_line(std::string text, bool markdown) {
  std::string out;
  for (char c : text) {
    if (markdown && c == '|') out += '\\';
    out += c == '\n' || c == '\r' || c == '\t' ? ' ' : c;
  }
  return printable(out);
}

struct AlignedCells {
  Cells titles;
  std::vector<Cells> rows;
  std::vector<size_t> widths;
};

AlignedCells lay_out(const Cells& titles, const std::vector<Cells>& rows, bool markdown) {
  AlignedCells out;
  const auto clean = [&](const Cells& cells) {
    Cells cleaned;
    for (const std::string& cell : cells) cleaned.push_back(one_line(cell, markdown));
    return cleaned;
  };
  out.titles = clean(titles);
  for (const Cells& row : rows) out.rows.push_back(clean(row));
  for (size_t i = 0; i < titles.size(); ++i) {
    size_t width = std::max<size_t>(markdown ? 3 : 1, display_width(out.titles[i]));
    for (const Cells& row : out.rows) width = std::max(width, display_width(row[i]));
    out.widths.push_back(width);
  }
  return out;
}

std::string line(const Cells& cells, const std::vector<size_t>& widths,
                 const std::vector<Align>& aligns, bool markdown) {
  std::string out = markdown ? "| " : "";
  for (size_t i = 0; i < cells.size(); ++i) {
    if (i > 0) out += markdown ? " | " : "  ";
    out += pad(cells[i], widths[i], aligns[i]);
  }
  if (markdown) return out + " |\n";
  out.erase(out.find_last_not_of(' ') + 1);
  return out + "\n";
}

}  // namespace

Table& Table::column(std::string title, Align align) {
  internal_check(rows_.empty(), "report", "a column came after a row");
  titles_.push_back(std::move(title));
  aligns_.push_back(align);
  return *this;
}

Table& Table::keys(size_t number) {
  num_keys_ = number;
  return *this;
}

Table& Table::row(std::vector<std::string> cells) {
  internal_check(cells.size() == titles_.size(), "report", "a row has {} cells; expected {}",
                 cells.size(), titles_.size());
  rows_.push_back(std::move(cells));
  return *this;
}

std::string Table::to_text(size_t width) const {
  const AlignedCells layout = lay_out(titles_, rows_, false);
  std::string out;
  constexpr size_t kBetween = 2;
  const auto is_last_text = [&](size_t column) {
    return column + 1 == titles_.size() && aligns_[column] == Align::kLeft;
  };
  internal_check(num_keys_ <= titles_.size(), "report", "{} keys among {} columns", num_keys_,
                 titles_.size());
  for (size_t next = num_keys_; next <= titles_.size();) {
    std::vector<size_t> shown(num_keys_);
    std::iota(shown.begin(), shown.end(), 0);
    size_t used = 0;
    for (const size_t key : shown) used += layout.widths[key] + kBetween;
    for (; next < titles_.size() &&
           (shown.size() == num_keys_ || is_last_text(next) || used + layout.widths[next] <= width);
         ++next) {
      used += layout.widths[next] + kBetween;
      shown.push_back(next);
    }
    auto part = [&](const auto& all) {
      std::decay_t<decltype(all)> some;
      for (size_t column : shown) some.push_back(all[column]);
      return some;
    };
    const auto widths = part(layout.widths);
    const auto aligns = part(aligns_);
    Cells rule;
    for (size_t column : widths) rule.push_back(std::string(column, '-'));
    out += (out.empty() ? "" : "\n") + line(part(layout.titles), widths, aligns, false);
    out += line(rule, widths, aligns, false);
    for (const Cells& row : layout.rows) out += line(part(row), widths, aligns, false);
    if (next >= titles_.size()) break;
  }
  return out;
}

std::string Table::to_markdown() const {
  const AlignedCells layout = lay_out(titles_, rows_, true);
  std::string out = line(layout.titles, layout.widths, aligns_, true);
  out += '|';
  for (size_t i = 0; i < layout.widths.size(); ++i) {
    const bool right = aligns_[i] == Align::kRight;
    out += std::string(layout.widths[i] + (right ? 1 : 2), '-') + (right ? ":|" : "|");
  }
  out += '\n';
  for (const Cells& row : layout.rows) out += line(row, layout.widths, aligns_, true);
  return out;
}

}  // namespace convoy::report
