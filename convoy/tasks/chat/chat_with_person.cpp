#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <optional>

#include <fmt/format.h>

#include "convoy/base/error.h"
#include "convoy/base/text.h"
#include "convoy/report/progress_output.h"
#include "convoy/tasks/chat/chat_generator.h"

namespace convoy::tasks {

namespace {

volatile std::sig_atomic_t asked_to_stop = 0;

void note_interrupt(int /*signal*/) {
  asked_to_stop = 1;
}

/// Scope in which Ctrl-C sets a flag and interrupts reading, instead of ending the program.
class Interrupts {
 public:
  Interrupts() {
    struct sigaction action{};
    action.sa_handler = note_interrupt;
    sigemptyset(&action.sa_mask);
    ::sigaction(SIGINT, &action, &before_);
  }
  ~Interrupts() { ::sigaction(SIGINT, &before_, nullptr); }
  Interrupts(const Interrupts&) = delete;
  Interrupts& operator=(const Interrupts&) = delete;

 private:
  struct sigaction before_{};
};

/// Reader of lines from the standard input that notices Ctrl-C.
class Input {
 public:
  enum class Got { kLine, kInterrupt, kEnd };

  Got next(std::string& line) {
    for (;;) {
      const size_t end = bytes_.find('\n');
      if (end != std::string::npos) {
        line = bytes_.substr(0, end);
        bytes_.erase(0, end + 1);
        return Got::kLine;
      }
      char buffer[4096];
      const auto got = ::read(STDIN_FILENO, buffer, sizeof(buffer));
      if (got < 0 && errno == EINTR) {
        if (asked_to_stop == 0) continue;
        bytes_.clear();
        return Got::kInterrupt;
      }
      if (got <= 0) {
        line = std::move(bytes_);
        bytes_.clear();
        return line.empty() ? Got::kEnd : Got::kLine;
      }
      bytes_.append(buffer, static_cast<size_t>(got));
    }
  }

 private:
  std::string bytes_;
};

void write_out(std::string_view text) {
  fmt::print("{}", ::isatty(STDOUT_FILENO) == 1 ? printable_lines(text) : std::string(text));
  std::fflush(stdout);
}

const char* told(const ChatGenerator::Answer& answer) {
  if (answer.stopped) return " [stopped]";
  if (answer.ended == Ended::AtLength) return " [--max-new-tokens reached]";
  if (answer.ended == Ended::AtContext) return " [the context is full; /new begins another one]";
  return "";
}

}  // namespace

void chat_with_person(ChatGenerator& chat) {
  const bool is_person = ::isatty(STDIN_FILENO) == 1;
  const Interrupts interrupts;
  Input input;
  if (is_person) {
    report::show_progress(
        "Ctrl-C stops an answer, /new begins another conversation, Ctrl-D ends.\n", stderr);
  }
  for (std::string said;;) {
    if (is_person) report::show_progress("> ", stderr);
    asked_to_stop = 0;
    const auto got = input.next(said);
    if (got == Input::Got::kEnd) break;
    if (got == Input::Got::kInterrupt) {
      report::show_progress("\n(Ctrl-D ends)\n", stderr);
      continue;
    }
    if (trim(said).empty()) continue;
    if (trim(said) == "/new") {
      chat.begin_anew();
      continue;
    }
    asked_to_stop = 0;
    try {
      const auto answer = chat.answer(said, write_out, [] { return asked_to_stop != 0; });
      fmt::print("\n");
      std::fflush(stdout);
      if (const std::string_view note = told(answer); !note.empty()) {
        report::show_progress(fmt::format("{}\n", note), stderr);
      }
    } catch (const UsageError& error) {
      if (!is_person) throw;
      report::show_progress(fmt::format("{}\n", error.what()), stderr);
    }
  }
  if (is_person) report::show_progress("\n", stderr);
}

}  // namespace convoy::tasks
