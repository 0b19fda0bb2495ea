#include "convoy/report/live_line.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include "convoy/report/progress_output.h"

namespace convoy::report {

namespace {

constexpr std::chrono::milliseconds kPause{200};

const std::string kWiped = "\r\033[K";

}  // namespace

LiveLine::LiveLine(std::FILE* stream)
    : stream_(stream), terminal_(::isatty(::fileno(stream)) == 1) {
  next_ += kPause;  // what is done at once needs no line
}

bool LiveLine::due() const {
  return terminal_ && std::chrono::steady_clock::now() >= next_;
}

void LiveLine::show(const std::string& text) {
  if (!terminal_) return;
  winsize size{};
  const bool known = ::ioctl(::fileno(stream_), TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
  if (takes_progress(stream_)) {
    show_progress(kWiped + text.substr(0, known ? size.ws_col - 1u : 79u), stream_);
    drawn_ = true;
  }
  next_ = std::chrono::steady_clock::now() + kPause;
}

void LiveLine::wipe() {
  if (drawn_) show_progress(kWiped, stream_);
  drawn_ = false;
}

}  // namespace convoy::report
