#include "convoy/report/progress_output.h"

#include <fmt/format.h>
#include <poll.h>
#include <stdio_ext.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <condition_variable>
#include <mutex>
#include <string>
#include <system_error>
#include <thread>
#include <utility>

#include "convoy/base/text.h"

namespace convoy::report {

void print_progress(std::string_view text, std::FILE* stream) {
  std::fwrite(text.data(), 1, text.size(), stream);
  if (std::fflush(stream) == 0 && std::ferror(stream) == 0) return;
  ::__fpurge(stream);  // else it would be an error at the end
  std::clearerr(stream);
}

namespace {

constexpr size_t kMostWaiting = 16 << 20;

/// Standard output or error. A thread of its own writes while the reader pauses, and ends once it
/// has caught up.
class Output {
 public:
  explicit Output(std::FILE* stream) : stream_(stream), file_(::fileno(stream)) {
    struct stat info{};
    waits_for_nobody_ = ::fstat(file_, &info) == 0 && S_ISREG(info.st_mode);
  }

  void show(std::string_view text) {
    std::unique_lock lock(mutex_);
    if (!behind_ && takes(text.size())) {
      // Writes without the lock, since another writer or a terminal may make it wait after all.
      behind_ = true;
      write(text, lock);
      return waiting_.empty() ? end() : catch_up_beside();
    }
    if (waiting_.size() + text.size() > kMostWaiting) {
      num_left_out_ += std::count(text.begin(), text.end(), '\n');
      return;
    }
    waiting_ += text;
    if (behind_) return;
    behind_ = true;
    catch_up_beside();
  }

  bool takes_now() {
    const std::lock_guard lock(mutex_);
    return !behind_ && takes(1);
  }

  void finish(std::chrono::milliseconds most) {
    std::unique_lock lock(mutex_);
    const auto done = [this] { return !behind_; };
    if (most == std::chrono::milliseconds::max()) return caught_up_.wait(lock, done);
    caught_up_.wait_for(lock, most, done);
  }

 private:
  /// Whether `size` bytes can be written without waiting for a reader; a pipe reports that for
  /// PIPE_BUF bytes.
  bool takes(size_t size) const {
    if (waits_for_nobody_) return true;
    pollfd entry{file_, POLLOUT, 0};
    return size <= PIPE_BUF && ::poll(&entry, 1, 0) == 1;
  }

  void write(std::string_view text, std::unique_lock<std::mutex>& lock) {
    lock.unlock();
    print_progress(text, stream_);
    lock.lock();
  }

  void end() {
    behind_ = false;
    caught_up_.notify_all();
  }

  void catch_up_beside() {
    try {
      std::thread([this] { catch_up(); }).detach();
    } catch (const std::system_error&) {  // the system has no more threads: it is left out
      waiting_.clear();
      end();
    }
  }

  void catch_up() {
    std::unique_lock lock(mutex_);
    while (!waiting_.empty()) {
      auto text = std::exchange(waiting_, {});
      if (num_left_out_ > 0) {
        text += fmt::format("[not shown: {}]\n", plural(num_left_out_, "line"));
      }
      num_left_out_ = 0;
      write(text, lock);
    }
    end();
  }

  std::FILE* stream_;
  int file_;
  bool waits_for_nobody_ = false;
  std::mutex mutex_;
  std::condition_variable caught_up_;
  std::string waiting_;
  int64_t num_left_out_ = 0;
  bool behind_ = false;
};

/// Output of a stream, never destroyed: its thread may write until the process ends.
Output& output_of(std::FILE* stream) {
  static auto& out = *new Output(stdout);
  static auto& err = *new Output(stderr);
  return stream == stdout ? out : err;
}

}  // namespace

void show_progress(std::string_view text, std::FILE* stream) {
  output_of(stream).show(text);
}

bool takes_progress(std::FILE* stream) {
  return output_of(stream).takes_now();
}

void finish_progress(std::chrono::milliseconds most) {
  output_of(stdout).finish(most);
  output_of(stderr).finish(most);
}

}  // namespace convoy::report
