#pragma once

#include <string>
#include <vector>

namespace convoy::report {

enum class Align { kLeft, kRight };

/// A table of text, built once and shown as aligned console lines or as Markdown.
class Table {
 public:
  Table& column(std::string title, Align align = Align::kRight);

  /// A table in several parts has the first `number` columns in each. 1 by default.
  Table& keys(size_t number);

  /// Adds a row. Throws InternalError unless it has one cell for each column.
  Table& row(std::vector<std::string> cells);

  /// Aligned lines, the titles and a rule first. A table wider than `width` comes in parts one
  /// below the other; a last column of text may run over.
  std::string to_text(size_t width = 120) const;

  /// A Markdown table, aligned also in its source.
  std::string to_markdown() const;

 private:
  std::vector<std::string> titles_;
  std::vector<Align> aligns_;
  std::vector<std::vector<std::string>> rows_;
  size_t num_keys_ = 1;
};

}  // namespace convoy::report
