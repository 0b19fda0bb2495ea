#include "convoy/train/checkpoints/space_wait.h"

#include <fmt/format.h>

#include <cmath>
#include <thread>

#include "convoy/base/activity.h"
#include "convoy/base/error.h"
#include "convoy/base/text.h"
#include "convoy/base/timing.h"
#include "convoy/comm/agree.h"
#include "convoy/train/checkpoints/disk_space.h"

namespace convoy::train {

namespace {

using Clock = std::chrono::steady_clock;

/// Time between two looks at the disk.
constexpr std::chrono::seconds kLook{1};
/// Seconds between two lines that tell of the wait, and between attempts where the system does not
/// tell of the space that a quota leaves.
constexpr double kTell = 60, kTry = 10;

std::string bytes_text(int64_t bytes) {
  return human_bytes(static_cast<size_t>(bytes));
}

}  // namespace

void SpaceWait::run(const comm::Group& group, int64_t bytes, const std::function<void()>& save) {
  if (!saved_ || longest_.count() <= 0) {
    save();
    saved_ = true;
    return;
  }
  for (const auto began = Clock::now();;) {
    try {
      return save();
    } catch (const DiskFullError& error) {
      const std::chrono::duration<double> waited = Clock::now() - began;
      if (!comm::ask_main(group, "look at the time that is left", [&] {
             return Json(waited < longest_);
           }).get<bool>()) {
        DiskFullError late(fmt::format("{}; waited {:.0f} s for space (--disk_full_wait)",
                                       error.what(), waited.count()));
        late.set_on_all_ranks();
        throw late;
      }
      wait(group, bytes, error);
    }
  }
}

/// Returns when the disk may have space, or the time is over. Throws `error` after a stop signal.
void SpaceWait::wait(const comm::Group& group, int64_t bytes, const DiskFullError& error) const {
  if (ends(group)) throw error;
  const Doing doing("wait for space on the disk");
  const auto free = free_space(folder_);
  callbacks_.say(fmt::format(
      "warning: {}; a save takes {} and {} free: all ranks wait up to {:.0f} s for space "
      "(--disk_full_wait), nothing is lost",
      error.what(), bytes_text(bytes), free ? bytes_text(*free) + " are" : "nobody tells what is",
      longest_.count()));
  const auto began = Clock::now();
  // A quota leaves less than the file system has free: then only an attempt tells.
  const bool has_quota = free && *free >= bytes;
  for (double told = 0;;) {
    std::this_thread::sleep_for(std::min<std::chrono::duration<double>>(kLook, longest_ / 4));
    if (ends(group)) throw error;
    const double waited = seconds_since(began);
    const bool over = comm::ask_main(group, "look for space", [&]() -> Json {
                        const auto now = free_space(folder_);
                        const bool is_there = !now || has_quota ? waited > kTry : *now >= bytes;
                        return is_there || waited >= longest_.count();
                      }).get<bool>();
    if (over) return;
    if (waited - told < kTell) continue;
    told = waited;
    callbacks_.say(fmt::format("the disk is still full; {:.0f} s of waiting are left",
                               std::ceil(longest_.count() - waited)));
  }
}

}  // namespace convoy::train
