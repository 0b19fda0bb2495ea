#include "convoy/launch/supervise/interrupt_grace.h"

#include <algorithm>
#include <ctime>
#include <exception>

#include "convoy/launch/error_file.h"
#include "convoy/launch/process.h"

namespace convoy::launch {

namespace {

constexpr double kAsking = 3, kOwnEnd = 5;  // seconds

}  // namespace

std::optional<double> seconds_left(const std::string& scontrol, double now) {
  constexpr std::string_view kKey = " EndTime=";
  const auto at = scontrol.find(kKey);
  if (at == std::string::npos) return std::nullopt;
  std::tm parts{};
  if (::strptime(scontrol.c_str() + at + kKey.size(), "%Y-%m-%dT%H:%M:%S", &parts) == nullptr) {
    return std::nullopt;  // Unknown
  }
  parts.tm_isdst = -1;
  const auto end = std::mktime(&parts);
  return end == -1 ? std::nullopt : std::optional(static_cast<double>(end) - now);
}

double grace_of_scheduler(const GetEnv& get) {
  const char* job = get("SLURM_JOB_ID");
  if (job == nullptr) return kInterruptGrace;
  try {
    const auto told =
        run_process({"scontrol", "--oneliner", "show", "job", job}, {.timeout_seconds = kAsking});
    const auto left = told.ok() ? seconds_left(told.out, wall_time()) : std::nullopt;
    if (left) return std::clamp(*left - kOwnEnd, kInterruptGrace, kMostSchedulerGrace);
  } catch (const std::exception&) {  // there is no scontrol
  }
  return kInterruptGrace;
}

}  // namespace convoy::launch
