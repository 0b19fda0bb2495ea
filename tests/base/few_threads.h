#pragma once

#include <pthread.h>
#include <sys/resource.h>
#include <unistd.h>

#include <fstream>

namespace convoy {

/// While it lives so many threads can be started and no more, as under a tight `ulimit`: each wants
/// a large stack, and the address space ends behind them.
class FewThreads {
 public:
  explicit FewThreads(size_t count) {
    ::pthread_getattr_default_np(&before_);
    ::getrlimit(RLIMIT_AS, &space_);
    pthread_attr_t large;
    ::pthread_getattr_default_np(&large);
    ::pthread_attr_setstacksize(&large, kStack);
    ::pthread_setattr_default_np(&large);
    ::pthread_attr_destroy(&large);
    size_t pages = 0;
    std::ifstream("/proc/self/statm") >> pages;
    const auto taken = pages * static_cast<size_t>(::sysconf(_SC_PAGESIZE));
    const rlimit now{taken + count * kStack + kStack / 2, space_.rlim_max};
    ::setrlimit(RLIMIT_AS, &now);
  }
  ~FewThreads() {
    ::setrlimit(RLIMIT_AS, &space_);
    ::pthread_setattr_default_np(&before_);
    ::pthread_attr_destroy(&before_);
  }
  FewThreads(const FewThreads&) = delete;
  FewThreads& operator=(const FewThreads&) = delete;

 private:
  static constexpr size_t kStack = size_t{1} << 30;

  pthread_attr_t before_{};
  rlimit space_{};
};

}  // namespace convoy
