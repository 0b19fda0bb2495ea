#include "convoy/base/fault.h"

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <new>
#include <string>
#include <thread>
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
/// Numbers of a step beside weights and gradients, which can only be doubled.
const std::vector<std::string> kDoubled{"count", "mask", "norm"};
const std::vector<std::string> kPhases{
    "start",  "forward", "layer",   "backward", "layer_backward", "backward_weight", "reduce",
    "gather", "update",  "offload", "send",     "receive",        "evaluation",      "saving",
    "count",  "mask",    "norm"};

struct Plan {
  std::string kind;  // empty: none
  std::string phase;
  int64_t step = 0;
  bool ends_data = false;
  int thread = 0;  // that is to fail, where the ranks are threads
};
Plan plan;

constexpr int kAllRanks = -1;
thread_local int own_rank = kAllRanks;

void check_known(const std::string& value, const std::vector<std::string>& known,
                 const std::string& text) {
  if (std::find(known.begin(), known.end(), value) != known.end()) return;
  fail<UsageError>("fault",
                   "CONVOY_FAULT = {} names '{}'; expected one of {}; try sigkill@1:backward:3",
                   text, value, join(known));
}

}  // namespace

void arm_fault(int rank, int num_ranks, int restart_count, bool threads) {
  plan = {};
  const char* text = std::getenv("CONVOY_FAULT");
  if (text == nullptr || *text == '\0' || restart_count > 0) return;
  const std::string all = text;
  const auto at = all.find('@');
  const auto parts =
      at == std::string::npos ? std::vector<std::string>{} : split(all.substr(at + 1), ':');
  Plan read;
  int64_t target = -1;
  if (parts.size() != 3 || !parse_number(parts[0], target) || !parse_number(parts[2], read.step)) {
    fail<UsageError>("fault",
                     "CONVOY_FAULT = {} makes no sense; expected kind@rank:phase:step; try "
                     "sigkill@1:backward:3",
                     all);
  }
  read.kind = all.substr(0, at);
  read.phase = parts[1];
  check_known(read.kind, kKinds, all);
  check_known(read.phase, kPhases, all);
  if (read.kind == "skip") check_known(read.phase, kSkipped, all);
  const bool is_doubled = std::find(kDoubled.begin(), kDoubled.end(), read.phase) != kDoubled.end();
  if (is_doubled) check_known(read.kind, {"double"}, all);
  // Evaluations also run without training.
  const bool in_training = is_doubled || read.phase.find("backward") != std::string::npos ||
                           read.phase == "reduce" || read.phase == "update" ||
                           read.phase == "offload" || read.phase == "saving";
  if (read.step < (in_training ? 1 : 0)) {
    fail<UsageError>("fault", "CONVOY_FAULT = {} names step {}; expected 1 or more", all,
                     read.step);
  }
  if (target < 0 || target >= num_ranks) {
    fail<UsageError>("fault", "CONVOY_FAULT = {} names rank {}; expected 0 to {}", all, target,
                     num_ranks - 1);
  }
  if (threads) read.thread = static_cast<int>(target);
  if (threads || target == rank) plan = read;
}

void suffer_faults_of(int rank) {
  own_rank = rank;
}

int faulty_thread() {
  return plan.thread;
}

bool fault_is_armed(std::string_view phase) {
  return !plan.kind.empty() && plan.phase == phase;
}

Fault fault_at(std::string_view phase) {
  if (own_rank != kAllRanks && own_rank != plan.thread) return Fault::kNone;
  if (plan.kind.empty() || plan.phase != phase) return Fault::kNone;
  if (plan.kind == "lag" && current_activity().step >= plan.step) {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    return Fault::kNone;
  }
  if (phase != "start" && current_activity().step != plan.step) return Fault::kNone;
  // These last for the whole step; NaN also when the step is looked at again.
  if (plan.kind == "nan") return Fault::kNan;
  if (plan.kind == "double") return Fault::kDouble;
  if (plan.kind == "skip") return Fault::kSkip;
  const std::string kind = plan.kind;
  plan.kind.clear();
  if (kind == "mismatch") return Fault::kMismatch;
  if (kind == "nodata") plan.ends_data = true;
  if (kind == "sigkill") ::raise(SIGKILL);
  if (kind == "sigstop") ::raise(SIGSTOP);
  if (kind == "exit") std::_Exit(9);
  if (kind == "exception") {
    throw std::runtime_error(fmt::format("[fault] injected exception in {}", phase));
  }
  if (kind == "oom") ::operator delete(::operator new(size_t{1} << 60));
  if (kind == "slow") std::this_thread::sleep_for(std::chrono::hours(1));
  return Fault::kNone;
}

bool fault_ends_data() {
  return std::exchange(plan.ends_data, false);
}

void refuse_faults_before(int64_t first_step) {
  const char* text = std::getenv("CONVOY_FAULT");
  const auto parts = split(text == nullptr ? "" : text, ':');
  int64_t step = 0;
  if (parts.size() != 3 || parts[1] == "start" || !parse_number(parts[2], step)) return;
  if (step >= first_step) return;
  fail<UsageError>("fault",
                   "CONVOY_FAULT = {} names step {}, which this run does not have; expected {} or "
                   "more; try --eval_on_start, whose step is 0",
                   text, step, first_step);
}

}  // namespace convoy
