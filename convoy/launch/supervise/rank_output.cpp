#include "convoy/launch/supervise/rank_output.h"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <fstream>

#include "convoy/base/error.h"
#include "convoy/base/text.h"

namespace convoy::launch {
namespace {

constexpr size_t kLongestLine = 65536;

}  // namespace

RankOutput::RankOutput(const std::filesystem::path& path, OnLine on_line)
    : pipe_(make_pipe()),
      file_(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644)),
      on_line_(std::move(on_line)) {
  if (file_.get() < 0) {
    fail<FileError>("launch", "cannot write the log {}: {}; try another --log-dir", path.string(),
                    std::strerror(errno));
  }
  ::fcntl(pipe_.read.get(), F_SETFL, O_NONBLOCK);
}

size_t RankOutput::pump() {
  if (read_fd() < 0) return 0;
  std::array<char, 65536> buffer;
  const ssize_t got = ::read(read_fd(), buffer.data(), buffer.size());
  if (got < 0 && (errno == EINTR || errno == EAGAIN)) return 0;
  if (got <= 0) {
    pipe_.read.reset();
    return 0;
  }
  std::string_view text(buffer.data(), static_cast<size_t>(got));
  // A full disk must not stop the training: the lines still reach the console.
  [[maybe_unused]] const ssize_t written = ::write(file_.get(), text.data(), text.size());
  for (size_t end; (end = text.find('\n')) != std::string_view::npos;) {
    unfinished_ += text.substr(0, end);
    hand_on(unfinished_);
    unfinished_.clear();
    text.remove_prefix(end + 1);
  }
  unfinished_ += text;
  if (unfinished_.size() > kLongestLine) {
    hand_on(unfinished_);
    unfinished_.clear();
  }
  return static_cast<size_t>(got);
}

void RankOutput::finish() {
  int left = 0;  // and no more, should somebody still write
  ::ioctl(read_fd(), FIONREAD, &left);
  for (size_t got = 1; left > 0 && got > 0; left -= static_cast<int>(got)) got = pump();
  if (!unfinished_.empty()) hand_on(unfinished_);
  unfinished_.clear();
  pipe_.read.reset();
}

void RankOutput::hand_on(std::string_view line) {
  if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
  // Keeps the last drawing alone of a progress bar that redraws its line.
  if (const size_t redrawn = line.rfind('\r'); redrawn != std::string_view::npos) {
    line.remove_prefix(redrawn + 1);
  }
  if (on_line_) on_line_(line);
}

std::vector<std::string> last_lines(const std::filesystem::path& path, size_t num_lines) {
  constexpr std::streamoff kWindow = 16384;
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  if (!file) return {};
  const std::streamoff size = file.tellg();
  file.seekg(std::max<std::streamoff>(0, size - kWindow));
  std::string text(static_cast<size_t>(std::min(size, kWindow)), '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<size_t>(file.gcount()));
  std::vector<std::string> lines = split(text, '\n');
  if (size > kWindow && !lines.empty()) lines.erase(lines.begin());
  std::erase_if(lines, [](const std::string& line) { return trim(line).empty(); });
  if (lines.size() > num_lines) lines.erase(lines.begin(), lines.end() - num_lines);
  return lines;
}

}  // namespace convoy::launch
