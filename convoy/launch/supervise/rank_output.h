#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "convoy/launch/spawn.h"

namespace convoy::launch {

/// One stream of one rank: copies it to a file as it comes and hands on whole lines.
class RankOutput {
 public:
  using OnLine = std::function<void(std::string_view line)>;

  /// Throws FileError when the file cannot be made.
  RankOutput(const std::filesystem::path& path, OnLine on_line);

  int write_fd() const { return pipe_.write.get(); }  ///< for the rank
  int read_fd() const { return pipe_.read.get(); }    ///< for poll; -1 after the end
  void close_write_end() { pipe_.write.reset(); }

  /// Takes some of what is there, without waiting; returns its bytes.
  size_t pump();

  /// Takes what is there now and hands on an unfinished line.
  void finish();

 private:
  void hand_on(std::string_view line);

  PipeEnds pipe_;
  Descriptor file_;
  OnLine on_line_;
  std::string unfinished_;
};

/// The last lines of a text file that are not empty, oldest first; none when it cannot be read.
std::vector<std::string> last_lines(const std::filesystem::path& path, size_t num_lines);

}  // namespace convoy::launch
