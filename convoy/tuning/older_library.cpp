#include <pthread.h>

#include <condition_variable>
#include <mutex>

// GCC 12 gave std::condition_variable::wait a new version, GLIBCXX_3.4.30, which alone would keep
// the program from systems with the libstdc++ of GCC 11: RHEL 9 and its kin. It differs from the
// one before in what it throws only, and libstdc++ keeps both. Here it is once more, for this
// program's own calls: hidden, so that libraries keep theirs.
#if defined(__GLIBCXX__)
static_assert(sizeof(std::condition_variable) == sizeof(pthread_cond_t));

extern "C" {
[[gnu::visibility("hidden")]] void
convoy_waits(std::condition_variable* condition, std::unique_lock<std::mutex>* lock) asm(
    "_ZNSt18condition_variable4waitERSt11unique_lockISt5mutexE");

void convoy_waits(std::condition_variable* condition, std::unique_lock<std::mutex>* lock) {
  pthread_cond_wait(condition->native_handle(), lock->mutex()->native_handle());
}
}
#endif

/// Name by which the linker takes this file into a program.
extern "C" const char convoy_needs_older_library = 1;
