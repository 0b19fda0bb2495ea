#include "convoy/base/arrived_lines.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "convoy/base/error.h"

namespace convoy {

bool ArrivedLines::read_more(bool waits) {
  constexpr size_t kBytes = 1 << 16;
  if (ended_) return false;
  if (!waits) {
    pollfd asked{descriptor_, POLLIN, 0};
    const bool there = ::poll(&asked, 1, 0) == 1 && (asked.revents & (POLLIN | POLLHUP)) != 0;
    if (!there) return false;
  }
  buffer_.erase(0, begin_);
  searched_ -= begin_;
  begin_ = 0;
  const size_t before = buffer_.size();
  buffer_.resize(before + kBytes);
  ssize_t count = 0;
  do {
    count = ::read(descriptor_, buffer_.data() + before, kBytes);
  } while (count < 0 && errno == EINTR);
  const int error = errno;
  buffer_.resize(before + static_cast<size_t>(std::max<ssize_t>(count, 0)));
  if (count < 0) {
    fail<FileError>("files", "cannot read the standard input: {}", std::strerror(error));
  }
  ended_ = count == 0;
  return !ended_;
}

bool ArrivedLines::take_line(std::vector<std::string>& out) {
  const auto end = buffer_.find('\n', searched_);
  if (end == std::string::npos) {
    searched_ = buffer_.size();
    return false;
  }
  out.push_back(buffer_.substr(begin_, end - begin_));
  begin_ = searched_ = end + 1;
  return true;
}

std::vector<std::string> ArrivedLines::next(size_t most) {
  std::vector<std::string> out;
  while (out.size() < most) {
    if (take_line(out)) continue;
    if (!read_more(/*waits=*/out.empty())) break;
  }
  if (out.empty() && begin_ < buffer_.size()) {  // at the end
    out.push_back(buffer_.substr(begin_));
    begin_ = searched_ = buffer_.size();
  }
  return out;
}

}  // namespace convoy
