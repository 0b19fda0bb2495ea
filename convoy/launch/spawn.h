#pragma once

#include <sys/types.h>

#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace convoy::launch {

/// Owns a file descriptor.
class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor() { reset(); }
  Descriptor(Descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }

  int get() const { return fd_; }
  void reset();

 private:
  int fd_ = -1;
};

/// A pipe that started programs do not inherit.
struct PipeEnds {
  Descriptor read;
  Descriptor write;
};

/// Throws CommunicationError when the system has no more descriptors.
PipeEnds make_pipe();

/// A program to be started.
struct Command {
  std::vector<std::string> argv;            ///< argv[0] is a path, or a name to be found in PATH
  std::map<std::string, std::string> env;   ///< set on top of this process's environment
  std::set<std::string> unset;              ///< variables that it does not get
  std::filesystem::path working_directory;  ///< empty: the current one
  std::vector<int> cores;                   ///< that it may use; empty: all of this process
  int stdin_fd = -1;                        ///< -1: inherited
  int stdout_fd = -1;
  int stderr_fd = -1;
};

/// A program that was started.
struct Process {
  pid_t pid = -1;     ///< of the program, and of the process group that it leads
  pid_t reaper = -1;  ///< a child of this process that ends as the program does, see reaper.h
};

/// Starts a fresh process. It, and all that it starts, is killed when this process ends. Throws
/// UsageError when the program cannot be started, CommunicationError when no process can.
Process spawn(const Command& command);

}  // namespace convoy::launch
