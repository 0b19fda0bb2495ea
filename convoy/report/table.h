#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace convoy::report {

enum class Align { kLeft, kRight };

/// A table of text, built once and shown as aligned console lines or as Markdown.
class Table {
 public:
  Table& column(std::string title, Align align = Align::kRight);

  /// Adds a row. Throws InternalError unless it has one cell for each column.
  Table& row(std::vector<std::string> cells);

  /// Aligned lines, the titles and a rule first.
  std::string to_text() const;

  /// A Markdown table, aligned also in its source.
  std::string to_markdown() const;

 private:
  std::vector<std::string> titles_;
  std::vector<Align> aligns_;
  std::vector<std::vector<std::string>> rows_;
};

/// The number of characters of UTF-8 text, as a terminal counts them (wide scripts aside).
size_t display_width(std::string_view text);

}  // namespace convoy::report
