#pragma once

#include <fmt/format.h>

#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace convoy {

/// Error that the person who runs the program can mend: a wrong option, a broken file, a busy port.
/// The text reads `[component] what happened; got X, expected Y; try Z`.
class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;

  /// Whether every rank throws at the same place: what they do together can still be ended.
  bool on_all_ranks() const { return on_all_ranks_; }
  void set_on_all_ranks() { on_all_ranks_ = true; }

 private:
  bool on_all_ranks_ = false;
};

/// A wrong option or argument.
class UsageError : public Error {
 public:
  using Error::Error;
};

/// A file or a stream that cannot be read, written or understood.
class FileError : public Error {
 public:
  using Error::Error;
};

/// A file that cannot be written because the disk, or what a quota leaves of it, is full.
class DiskFullError : public FileError {
 public:
  using FileError::FileError;
};

/// Failure of another rank, or a collective operation that did not finish.
class CommunicationError : public Error {
 public:
  using Error::Error;
  /// `missing`: the ranks that were waited for in vain, to blame before the one that throws.
  CommunicationError(const std::string& what, std::vector<int> missing)
      : Error(what), missing_(std::move(missing)) {}

  const std::vector<int>& missing() const { return missing_; }

 private:
  std::vector<int> missing_;
};

/// Numbers that make no sense: a loss that is not finite, say.
class NumericError : public Error {
 public:
  using Error::Error;
};

/// A mistake in convoy itself; please report it.
class InternalError : public std::logic_error {
 public:
  using std::logic_error::logic_error;
};

/// Throws E with a formatted message: `fail<UsageError>("train", "batch is {}; expected more", 0)`.
template <class E = Error, class... Args>
[[noreturn]] void fail(const char* component, fmt::format_string<Args...> format, Args&&... args) {
  throw E(fmt::format("[{}] {}", component, fmt::format(format, std::forward<Args>(args)...)));
}

/// Throws E like fail(), and marks it as an error that every rank of the job throws.
template <class E = Error, class... Args>
[[noreturn]] void fail_on_all_ranks(const char* component, fmt::format_string<Args...> format,
                                    Args&&... args) {
  E error(fmt::format("[{}] {}", component, fmt::format(format, std::forward<Args>(args)...)));
  error.set_on_all_ranks();
  throw error;
}

/// Throws InternalError unless `condition` holds.
template <class... Args>
void internal_check(bool condition, const char* component, fmt::format_string<Args...> format,
                    Args&&... args) {
  if (!condition) {
    throw InternalError(fmt::format("[{}] internal error: {}; please report it", component,
                                    fmt::format(format, std::forward<Args>(args)...)));
  }
}

}  // namespace convoy
