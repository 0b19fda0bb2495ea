#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <filesystem>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

// Activity of a process, "step 17, reduce bucket 3", in memory that others can read, also after it
// was killed. Telling it costs a short copy and no system call.
namespace convoy {

struct Activity {
  int64_t step = 0;       ///< optimizer step under way, from 1; 0 before the first
  std::string operation;  ///< "forward block 3, micro-batch 0", or ""
  double since = 0;       ///< time of its begin, seconds since 1970
};

/// Size of the memory that holds one activity; it is valid when all zero.
inline constexpr size_t kActivityBytes = 256;

/// Keeps this process's activity in `page` (kActivityBytes, aligned to 8) too, from now on. It must
/// stay mapped until retract_activity(page).
void publish_activity(void* page);
void retract_activity(void* page);

/// Keeps the activity in a page mapped from a new file, too. Returns false when the file cannot be
/// made: a status that nobody can read must not stop a run.
bool publish_activity_to_file(const std::filesystem::path& path);

/// Source of activities: a thread, or several that work for one. The process's activity is that of
/// the thread that tells steps and operations (the main thread, before any did); other threads'
/// work is not part of it.
using Voice = uint64_t;
Voice own_voice();
/// Makes this thread tell as part of `voice`, the voice of the thread that it works for.
void speak_as(Voice voice);

void tell_step(int64_t step);
void tell_operation(std::string_view operation);

/// Returns the activity that this process told last.
Activity current_activity();

/// Operation of one of several threads that work side by side, for another one to read.
class ThreadOperation {
 public:
  /// Returns what was told before.
  std::string tell(std::string_view operation);
  std::string told() const;

 private:
  mutable std::mutex mutex_;
  std::string text_;
};

/// Copies operations that this thread tells to `own`, too, until the next call. `own` must live as
/// long; null ends it.
void tell_too(ThreadOperation* own);

/// Records which thread failed last, and in what, for whoever reports it; for processes whose ranks
/// are threads.
void note_failure(const std::string& who_and_where);
std::string noted_failure();

/// Returns the activity that a process told through a page. Safe while it is being written.
Activity read_activity(const void* page);
/// Reads the activity from a file, as read_activity() does from a page; returns nothing when the
/// file is missing or too short.
std::optional<Activity> read_activity_file(const std::filesystem::path& path);

/// "step 17, reduce bucket 3", "reduce bucket 3", "" when nothing was told.
std::string to_text(const Activity& activity);

/// Guard: tells an operation while it lives, and then again the one that was told before. Tells
/// nothing in a thread that works beside the one that tells. An exception that ends it leaves the
/// operation told, for whoever reports the failure.
class Doing {
 public:
  explicit Doing(std::string_view operation)
      : before_(tell(operation)), own_before_(tell_own(operation)) {}
  ~Doing() {
    if (std::uncaught_exceptions() != exceptions_) return;
    if (before_) tell(*before_);
    if (own_before_) tell_own(*own_before_);
  }
  Doing(const Doing&) = delete;
  Doing& operator=(const Doing&) = delete;

 private:
  /// Returns what was told before; nothing in a thread that is not heard.
  static std::optional<std::string> tell(std::string_view operation);
  static std::optional<std::string> tell_own(std::string_view operation);

  std::optional<std::string> before_, own_before_;
  int exceptions_ = std::uncaught_exceptions();
};

}  // namespace convoy
