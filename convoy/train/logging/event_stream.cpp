#include "convoy/train/logging/event_stream.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>

#include "convoy/base/error.h"
#include "convoy/job/job.h"

namespace convoy::train {

namespace {

namespace fs = std::filesystem;
using SteadyClock = std::chrono::steady_clock;

constexpr size_t kMostWaiting = size_t{1} << 20;
constexpr std::chrono::seconds kToEnd{5};

/// Writer to a FIFO that never waits for its reader.
class Pipe {
 public:
  explicit Pipe(const fs::path& path) {
    struct stat found{};
    if (::stat(path.c_str(), &found) != 0 || !S_ISFIFO(found.st_mode)) {
      fail<UsageError>("train", "output.events = {} is no named pipe; try mkfifo, and a reader",
                       path.string());
    }
    fd_ = ::open(path.c_str(), O_WRONLY | O_NONBLOCK | O_CLOEXEC);
    if (fd_ < 0) {
      fail<UsageError>("train", "output.events = {} cannot be written to: {}", path.string(),
                       errno == ENXIO ? "nobody reads it" : std::strerror(errno));
    }
    std::signal(SIGPIPE, SIG_IGN);
  }
  ~Pipe() { close(); }
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;

  bool open() const { return fd_ >= 0; }
  size_t waiting() const { return waiting_.size(); }

  void write() {
    while (open() && !waiting_.empty()) {
      const auto written = ::write(fd_, waiting_.data(), waiting_.size());
      if (written >= 0) {
        waiting_.erase(0, static_cast<size_t>(written));
      } else if (errno == EAGAIN) {
        return;
      } else if (errno != EINTR) {
        close();
      }
    }
  }

  void put(const std::string& line) {
    waiting_ += line;
    write();
  }

  /// Waits, up to `patience`, for a slow reader to take the rest.
  void finish(SteadyClock::duration patience) {
    const auto end = SteadyClock::now() + patience;
    for (write(); open() && !waiting_.empty() && SteadyClock::now() < end; write()) {
      struct pollfd wanted = {fd_, POLLOUT, 0};
      ::poll(&wanted, 1, 100);
    }
  }

 private:
  void close() {
    if (open()) ::close(fd_);
    fd_ = -1;
  }

  int fd_ = -1;
  std::string waiting_;
};

class EventStream : public Callback {
 public:
  EventStream(const fs::path& pipe, std::function<void(const std::string&)> warn)
      : pipe_(pipe), warn_(std::move(warn)) {}

  void on_train_begin(const RunInfo& info) override {
    tell("begin", {{"output_dir", info.arguments->output.dir},
                   {"step", info.first_step},
                   {"max_steps", info.max_steps},
                   {"num_examples", info.num_examples},
                   {"num_parameters", info.num_parameters},
                   {"num_trainable_parameters", info.num_trainable_parameters},
                   {"total_batch", info.total_batch},
                   {"steps_per_epoch", info.steps_per_epoch}});
  }
  void on_step(const StepTiming& step) override {
    tell("step", {{"step", step.step},
                  {"loss", step.loss},
                  {"seconds", step.seconds},
                  {"data_wait", step.data_wait},
                  {"comm_wait", step.comm_wait},
                  {"samples", step.samples}});
  }
  void on_log(const LogRecord& record) override { tell("log", record.to_json()); }
  void on_evaluate(const Metrics& metrics, int64_t step) override {
    tell("evaluate", {{"step", step}, {"metrics", metrics}});
  }
  void on_save(const fs::path& path) override { tell("save", {{"folder", path.string()}}); }
  void on_message(const std::string& text) override { tell("message", {{"text", text}}); }
  void on_train_end(const Metrics& metrics) override {
    tell("end", {{"metrics", metrics}}, /*always=*/true);
    pipe_.finish(kToEnd);
  }

 private:
  void tell(const char* event, Json line, bool always = false) {
    if (!pipe_.open()) return;
    pipe_.write();
    if (pipe_.waiting() > kMostWaiting && !always) {
      ++dropped_;
      return;
    }
    if (dropped_ > 0) pipe_.put(json_line({{"event", "dropped"}, {"lines", dropped_}}) + "\n");
    dropped_ = 0;
    line["event"] = event;
    pipe_.put(json_line(line) + "\n");
    if (!pipe_.open()) warn_("nobody reads output.events any more; training goes on");
  }

  Pipe pipe_;
  std::function<void(const std::string&)> warn_;
  int64_t dropped_ = 0;
};

}  // namespace

std::shared_ptr<Callback> make_event_stream(const fs::path& pipe,
                                            std::function<void(const std::string&)> warn) {
  return std::make_shared<EventStream>(pipe, std::move(warn));
}

}  // namespace convoy::train
