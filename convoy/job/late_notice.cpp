#include "convoy/job/late_notice.h"

#include <condition_variable>
#include <mutex>
#include <utility>

#include "convoy/base/text.h"
#include "convoy/report/progress_output.h"

namespace convoy::job {

LateNotice::LateNotice(std::chrono::milliseconds after, std::string text)
    : thread_([after, text = std::move(text)](const std::stop_token& stop) {
        std::mutex mutex;
        std::condition_variable_any changed;
        std::unique_lock lock(mutex);
        changed.wait_for(lock, stop, after, [&] { return stop.stop_requested(); });
        if (!stop.stop_requested()) report::show_progress(printable_lines(text) + "\n", stderr);
      }) {}

}  // namespace convoy::job
