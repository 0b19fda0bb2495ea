#include "convoy/base/piped_input.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string_view>
#include <vector>

#include "convoy/base/error.h"
#include "convoy/base/files.h"

namespace convoy {
namespace fs = std::filesystem;

namespace {

int nameless_file(const fs::path& folder) {
  constexpr mode_t kOwner = 0600;
  const int file = ::open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, kOwner);
  if (file >= 0 || (errno != EOPNOTSUPP && errno != EISDIR)) return file;
  std::string name = folder / "convoy-input-XXXXXX";
  const int named = ::mkostemp(name.data(), O_CLOEXEC);
  if (named >= 0) ::unlink(name.c_str());
  return named;
}

/// Calls read() or write() again where a signal interrupted it.
template <class Call>
ssize_t again(const Call& call) {
  ssize_t done = 0;
  do {
    done = call();
  } while (done < 0 && errno == EINTR);
  return done;
}

/// Removes digits, of which there is at least one, from the start.
bool take_number(std::string_view& text) {
  const auto end = std::min(text.find_first_not_of("0123456789"), text.size());
  text.remove_prefix(end);
  return end > 0;
}

bool take(std::string_view& text, std::string_view word) {
  if (!text.starts_with(word)) return false;
  text.remove_prefix(word.size());
  return true;
}

}  // namespace

std::string input_name(const std::string& input) {
  std::string_view rest = input;
  const bool kept = take(rest, "/proc/") && take_number(rest) && take(rest, "/fd/") &&
                    take_number(rest) && rest.empty();
  return kept ? "the piped input" : input;
}

bool is_piped(const std::string& input) {
  // These paths name another file in another process.
  for (const char* own : {"/dev/stdin", "/dev/fd/", "/proc/self/"}) {
    if (input.starts_with(own)) return true;
  }
  std::error_code error;
  const auto type = fs::status(input, error).type();
  return input == "-" || type == fs::file_type::fifo || type == fs::file_type::character ||
         type == fs::file_type::socket;
}

std::string lasting_input(const std::string& input) {
  if (!is_piped(input)) return input;
  const int from = input == "-" ? ::dup(STDIN_FILENO) : ::open(input.c_str(), O_RDONLY | O_CLOEXEC);
  if (from < 0) fail<FileError>("files", "cannot read {}: {}", input, std::strerror(errno));
  const char* wanted = std::getenv("TMPDIR");
  const fs::path folder = wanted != nullptr && *wanted != '\0' ? wanted : "/tmp";
  const auto refuse_write = [&] {
    fail<FileError>("files", "cannot keep {} in {}: {}; try another folder as TMPDIR, or a file",
                    input, folder.string(), write_trouble(errno));
  };
  const int to = nameless_file(folder);
  if (to < 0) refuse_write();
  std::vector<char> buffer(1 << 20);
  for (;;) {
    const auto got = again([&] { return ::read(from, buffer.data(), buffer.size()); });
    if (got < 0) {
      fail<FileError>("files", "cannot read {} to its end: {}", input, std::strerror(errno));
    }
    if (got == 0) break;
    for (ssize_t done = 0; done < got;) {
      const auto put =
          again([&] { return ::write(to, buffer.data() + done, static_cast<size_t>(got - done)); });
      if (put <= 0) refuse_write();
      done += put;
    }
  }
  ::close(from);
  return fmt::format("/proc/{}/fd/{}", ::getpid(), to);
}

}  // namespace convoy
