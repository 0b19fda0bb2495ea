#include "convoy/base/fault.h"

#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstdlib>
#include <new>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "convoy/base/activity.h"
#include "convoy/base/error.h"
#include "convoy/base/text.h"

namespace convoy {

namespace {

const std::vector<std::string> kKinds{"sigkill", "sigstop", "exception", "exit",
                                      "oom",     "nan",     "double",    "skip",
                                      "slow",    "lag",     "mismatch",  "nodata"};
/// Operations that a rank can leave out while the others go on.
const std::vector<std::string> kSkipped{"reduce", "update"};
/// Numbers of a step other than weights and gradients. The only fault for them is doubling.
const std::vector<std::string> kDoubled{"count", "mask", "norm"};
const std::vector<std::string> kPhases{
    "start",      "forward",  "layer",    "backward", "layer_backward", "backward_weight",
    "reduce",     "gather",   "update",   "offload",  "send",           "receive",
    "evaluation", "saving",   "count",    "mask",     "norm",           "copy",
    "copy_send",  "copy_sum", "copy_end", "bring",    "resume",         "instruction"};
/// Phases in which a process can only end or wait.
const std::vector<std::string> kOnlyEnd{"copy",  "copy_send", "copy_sum",   "copy_end",
                                        "bring", "resume",    "instruction"};
const std::vector<std::string> kEnds{"sigkill", "sigstop", "exception", "exit", "oom", "slow"};
/// Phases whose faults happen in whichever step comes to them first.
const std::vector<std::string> kOfNoStep{"start", "bring", "resume"};

/// A fault of this start and process.
struct Armed {
  std::string kind;  // empty: it has happened
  std::string phase;
  int64_t step = 0;
  int thread = 0;  // that is to fail, where the ranks are threads
};
std::vector<Armed> armed;
bool data_ends = false;
std::atomic<int> last_thread = 0;
thread_local int64_t num_instructions = 0;

constexpr int kAllRanks = -1;
thread_local int own_rank = kAllRanks;

bool contains(const std::vector<std::string>& all, const std::string& one) {
  return std::find(all.begin(), all.end(), one) != all.end();
}

void check_known(const std::string& value, const std::vector<std::string>& known,
                 const std::string& text) {
  if (contains(known, value)) return;
  fail<UsageError>("fault",
                   "CONVOY_FAULT = {} names '{}'; expected one of {}; try sigkill@1:backward:3",
                   text, value, join(known));
}

/// A fault of CONVOY_FAULT, whose whole text is `all`.
struct Written {
  std::string kind, phase;
  int64_t rank = -1, step = 0, start = 0;
};

Written parse(const std::string& text, const std::string& all) {
  const auto at = text.find('@');
  const auto parts =
      at == std::string::npos ? std::vector<std::string>{} : split(text.substr(at + 1), ':');
  Written out;
  const bool numbers = (parts.size() == 3 || parts.size() == 4) &&
                       parse_number(parts[0], out.rank) && parse_number(parts[2], out.step) &&
                       (parts.size() == 3 || parse_number(parts[3], out.start));
  if (!numbers) {
    fail<UsageError>("fault",
                     "CONVOY_FAULT = {} makes no sense; expected kind@rank:phase:step, or "
                     "kind@rank:phase:step:start, and commas between several; try "
                     "sigkill@1:backward:3",
                     all);
  }
  out.kind = text.substr(0, at);
  out.phase = parts[1];
  check_known(out.kind, kKinds, all);
  check_known(out.phase, kPhases, all);
  if (out.kind == "skip") check_known(out.phase, kSkipped, all);
  const bool is_doubled = contains(kDoubled, out.phase);
  if (is_doubled) check_known(out.kind, {"double"}, all);
  if (contains(kOnlyEnd, out.phase)) check_known(out.kind, kEnds, all);
  // Evaluations also run without training.
  const bool in_training = is_doubled || out.phase.find("backward") != std::string::npos ||
                           out.phase.starts_with("copy") || out.phase == "reduce" ||
                           out.phase == "update" || out.phase == "offload" ||
                           out.phase == "saving" || out.phase == "instruction";
  if (out.phase == "copy_end" && out.rank != 0) {
    fail<UsageError>("fault", "CONVOY_FAULT = {} names rank {}; expected 0, which ends a copy", all,
                     out.rank);
  }
  if (out.step < (in_training ? 1 : 0)) {
    fail<UsageError>("fault", "CONVOY_FAULT = {} names step {}; expected 1 or more", all, out.step);
  }
  return out;
}

/// Returns the faults that CONVOY_FAULT names; none where it is not set.
std::vector<Written> written_faults() {
  const char* text = std::getenv("CONVOY_FAULT");
  std::vector<Written> out;
  if (text == nullptr || *text == '\0') return out;
  for (const auto& one : split(text, ',')) out.push_back(parse(one, text));
  return out;
}

}  // namespace

void arm_fault(int rank, int num_ranks, int restart_count, bool threads) {
  armed.clear();
  data_ends = false;
  last_thread = 0;
  num_instructions = 0;
  for (const auto& one : written_faults()) {
    if (one.rank < 0 || one.rank >= num_ranks) {
      fail<UsageError>("fault", "CONVOY_FAULT = {} names rank {}; expected 0 to {}",
                       std::getenv("CONVOY_FAULT"), one.rank, num_ranks - 1);
    }
    if (one.start != restart_count || (!threads && one.rank != rank)) continue;
    armed.push_back({one.kind, one.phase, one.step, threads ? static_cast<int>(one.rank) : 0});
  }
  if (!armed.empty()) last_thread = armed.front().thread;
}

void suffer_faults_of(int rank) {
  own_rank = rank;
}

int faulty_thread() {
  return last_thread;
}

bool fault_is_armed(std::string_view phase) {
  return std::any_of(armed.begin(), armed.end(), [&](const Armed& fault) {
    return !fault.kind.empty() && fault.phase == phase;
  });
}

namespace {

/// Whether the time of a fault has come, in its phase.
bool is_due(const Armed& fault) {
  if (fault.phase == "instruction") return num_instructions == fault.step;
  return contains(kOfNoStep, fault.phase) || current_activity().step == fault.step;
}

Fault strike(Armed& fault) {
  if (fault.kind == "lag" && current_activity().step >= fault.step) {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    return Fault::kNone;
  }
  if (!is_due(fault)) return Fault::kNone;
  last_thread = fault.thread;
  // These faults last for the whole step; NaN also while the step is examined again.
  if (fault.kind == "nan") return Fault::kNan;
  if (fault.kind == "double") return Fault::kDouble;
  if (fault.kind == "skip") return Fault::kSkip;
  const std::string kind = std::exchange(fault.kind, "");
  if (kind == "mismatch") return Fault::kMismatch;
  if (kind == "nodata") data_ends = true;
  if (kind == "sigkill") ::raise(SIGKILL);
  if (kind == "sigstop") ::raise(SIGSTOP);
  if (kind == "exit") std::_Exit(9);
  if (kind == "exception") {
    throw std::runtime_error(fmt::format("[fault] injected exception in {}", fault.phase));
  }
  if (kind == "oom") ::operator delete(::operator new(size_t{1} << 60));
  if (kind == "slow") std::this_thread::sleep_for(std::chrono::hours(1));
  return Fault::kNone;
}

}  // namespace

Fault fault_at(std::string_view phase) {
  if (armed.empty()) return Fault::kNone;
  if (phase == "instruction") ++num_instructions;
  for (auto& fault : armed) {
    if (own_rank != kAllRanks && own_rank != fault.thread) continue;
    if (fault.kind.empty() || fault.phase != phase) continue;
    if (const auto out = strike(fault); out != Fault::kNone) return out;
  }
  return Fault::kNone;
}

bool fault_ends_data() {
  return std::exchange(data_ends, false);
}

void refuse_faults_before(int64_t first_step) {
  for (const auto& one : written_faults()) {
    if (contains(kOfNoStep, one.phase) || one.step >= first_step) continue;
    fail<UsageError>(
        "fault",
        "CONVOY_FAULT = {} names step {}, which this run does not have; expected {} or "
        "more; try --eval_on_start, whose step is 0",
        std::getenv("CONVOY_FAULT"), one.step, first_step);
  }
}

}  // namespace convoy
