#pragma once

#include <string>
#include <vector>

namespace convoy {

/// Lines of a pipe or a file, with those that have arrived already.
class ArrivedLines {
 public:
  explicit ArrivedLines(int descriptor) : descriptor_(descriptor) {}

  /// Waits for a line, and returns it with those after it that are there already, without their
  /// "\n", at most `most`; none at the end. A last line needs no "\n". Throws FileError where the
  /// input cannot be read.
  std::vector<std::string> next(size_t most);

 private:
  /// Reads what is there; waits for it where `waits`. Returns whether it found more.
  bool read_more(bool waits);
  bool take_line(std::vector<std::string>& out);

  int descriptor_;
  std::string buffer_;  // what was read, from begin_ on
  size_t begin_ = 0, searched_ = 0;
  bool ended_ = false;
};

}  // namespace convoy
