#include "convoy/train/checkpoints/space_wait.h"

#include <fmt/format.h>

#include <cmath>
#include <thread>

#include "convoy/base/activity.h"
#include "convoy/base/text.h"
#include "convoy/base/timing.h"
#include "convoy/comm/agree.h"
#include "convoy/train/checkpoints/disk_space.h"

namespace convoy::train {

namespace {

/// Time between two looks at the disk.
constexpr std::chrono::seconds kLook{1};
/// Seconds between two lines that tell of the wait, and between attempts where the system says that
/// there is no space: it may leave out some, as that of root.
constexpr double kTell = 60;
/// Seconds between attempts where it says that there is space, as where a quota leaves less.
constexpr double kTry = 10;

std::string bytes_text(int64_t bytes) {
  return human_bytes(static_cast<size_t>(bytes));
}

}  // namespace

void SpaceWait::run(const comm::Group& group, const Bytes& bytes,
                    const std::function<void()>& save) {
  const auto began = Clock::now();
  for (bool told = false;; told = true) {
    try {
      return save();
    } catch (const DiskFullError& error) {
      if (!waits()) throw;
      auto end = End::Signal;
      if (!stop_signal_ || stop_signal_(group) == 0) {
        const int64_t needed = bytes();
        if (!told) tell(needed, error);
        end = wait(group, needed, began);
      }
      if (end == End::Try) continue;
      if (end == End::Signal) {
        callbacks_.say(fmt::format(
            "warning: a signal stops the run, and the last steps are not saved: {}", error.what()));
        throw;
      }
      DiskFullError late(fmt::format("{}; waited {:.0f} s for space (--disk_full_wait)",
                                     error.what(), seconds_since(began)));
      late.set_on_all_ranks();
      throw late;
    }
  }
}

void SpaceWait::tell(int64_t bytes, const DiskFullError& error) const {
  const auto free = free_space(folder_);
  callbacks_.say(fmt::format(
      "warning: {}; a save takes {} and {} free: all ranks wait up to {:.0f} s for space "
      "(--disk_full_wait)",
      error.what(), bytes_text(bytes), free ? bytes_text(*free) + " are" : "nobody tells what is",
      longest_.count()));
}

/// Waits until another attempt is worth it, a stop signal comes or the time that `began` is over.
SpaceWait::End SpaceWait::wait(const comm::Group& group, int64_t bytes,
                               Clock::time_point began) const {
  const Doing doing("wait for space on the disk");
  const auto last_try = Clock::now();
  const auto free = free_space(folder_);
  const bool has_quota = !free || *free >= bytes;
  const auto look = [&]() -> Json {
    if (seconds_since(began) >= longest_.count()) return "over";
    const auto now = free_space(folder_);
    const bool is_there = !has_quota && now && *now >= bytes;
    return is_there || seconds_since(last_try) > (has_quota ? kTry : kTell) ? "try" : "wait";
  };
  for (double told = seconds_since(began);;) {
    std::this_thread::sleep_for(std::min<std::chrono::duration<double>>(kLook, longest_ / 4));
    if (stop_signal_ && stop_signal_(group) != 0) return End::Signal;
    const std::string found = comm::ask_main(group, "look for space", look);
    if (found == "over") return End::Time;
    if (found == "try") return End::Try;
    const double waited = seconds_since(began);
    if (waited - told < kTell) continue;
    told = waited;
    callbacks_.say(fmt::format("the disk is still full; {:.0f} s of waiting are left",
                               std::ceil(longest_.count() - waited)));
  }
}

}  // namespace convoy::train
