#include "convoy/launch/supervise/exits.h"

#include <sys/epoll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <utility>

namespace convoy::launch {

Exits::Exits() : queue_(::epoll_create1(EPOLL_CLOEXEC)) {}

void Exits::watch(pid_t process) {
  Descriptor handle(static_cast<int>(::syscall(SYS_pidfd_open, process, 0)));
  if (handle.get() < 0) {
    if (errno == ESRCH) ended_.push_back(process);
    return;
  }
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.fd = process;
  ::epoll_ctl(queue_.get(), EPOLL_CTL_ADD, handle.get(), &event);
  watched_.emplace(process, std::move(handle));
}

std::vector<pid_t> Exits::take() {
  std::array<epoll_event, 64> events;
  int count = 0;
  do {  // epoll hands them on in the order in which they came
    count = ::epoll_wait(queue_.get(), events.data(), events.size(), 0);
    for (int i = 0; i < count; ++i) {
      const pid_t process = events[static_cast<size_t>(i)].data.fd;
      ended_.push_back(process);
      // Closing is not enough: a process that was forked meanwhile may hold it too.
      ::epoll_ctl(queue_.get(), EPOLL_CTL_DEL, watched_.at(process).get(), nullptr);
      watched_.erase(process);
    }
  } while (count > 0);
  return std::exchange(ended_, {});
}

}  // namespace convoy::launch
