#include "convoy/launch/supervise/failure.h"

#include <algorithm>
#include <csignal>
#include <tuple>

#include "convoy/base/error.h"
#include "convoy/base/json_value.h"
#include "convoy/base/text.h"
#include "convoy/launch/process.h"

namespace convoy::launch {
namespace {

constexpr const char* kCollectives[] = {"wait",      "reduce",  "gather", "scatter",
                                        "broadcast", "barrier", "send",   "recv"};

bool lost_its_peers(const RankReport& rank) {
  return rank.error && rank.error->kind == "CommunicationError";
}

double failure_time(const RankReport& rank) {
  return rank.error && rank.error->time > 0 ? rank.error->time : rank.end_time;
}

/// Number of ranks that lost contact while they waited for this one; 0 where this one gave a reason
/// of its own.
size_t missed_by(const RankReport& rank, const std::vector<RankReport>& all) {
  if (rank.error || rank.end == RankEnd::kFailed) return 0;
  return static_cast<size_t>(std::count_if(all.begin(), all.end(), [&](const RankReport& other) {
    return lost_its_peers(other) && other.early &&
           std::count(other.error->missing.begin(), other.error->missing.end(), rank.rank) > 0;
  }));
}

/// Whether an operation waits for other ranks.
bool is_collective(std::string_view operation) {
  return std::any_of(std::begin(kCollectives), std::end(kCollectives),
                     [&](const char* word) { return operation.starts_with(word); });
}

/// Whether a rank without a reason was in an operation that waits for no other rank.
bool hangs(const RankReport& rank) {
  const auto& operation = rank.activity.operation;
  return !rank.error && rank.end != RankEnd::kFailed && rank.end != RankEnd::kSucceeded &&
         (rank.suspended || (!operation.empty() && !is_collective(operation)));
}

/// Sentence about the end of a rank that did not cause the failure.
std::string consequence(const RankReport& rank, const RankReport& culprit) {
  const std::string place = rank.place();
  const std::string in = place.empty() ? "" : " in " + place;
  const std::string was =
      place.empty() ? ""
      : rank.suspended
          ? fmt::format("was suspended{} and ", in)
          : fmt::format("{}{} and ", is_collective(rank.activity.operation) ? "waited" : "was", in);
  switch (rank.end) {
    case RankEnd::kSucceeded:
      return "had finished";
    case RankEnd::kFailed:
      if (lost_its_peers(rank)) return fmt::format("lost contact with the others{}", in);
      if (rank.error && culprit.error && rank.error->error == culprit.error->error) {
        return "failed for the same reason";
      }
      return fmt::format("{}{}", rank.reason(), in);
    case RankEnd::kStopped:
      return fmt::format("{}had to be stopped", was);
    case RankEnd::kKilled:
      return fmt::format("{}did not stop when asked and had to be killed", was);
  }
  return "";
}

std::string advice(const RankReport& rank) {
  switch (rank.end == RankEnd::kFailed ? rank.signal : 0) {
    case SIGKILL:
      if (rank.out_of_memory) {
        return "fewer ranks here, or options with which each takes less: `convoy estimate` with "
               "the same options tells which";
      }
      return "perhaps the machine ran out of memory (see `dmesg`): fewer ranks, or what `convoy "
             "estimate` finds; or somebody killed it";
    case SIGSEGV:
    case SIGABRT:
    case SIGILL:
    case SIGFPE:
      return "this is a crash, not a wrong option: run it as a single rank, under gdb if it "
             "crashes "
             "there too";
    case SIGBUS:
      return "perhaps shared memory or a disk is full: see `df -h /dev/shm`, and that of TMPDIR "
             "and of the "
             "data";
    default:
      break;
  }
  if (rank.end == RankEnd::kStopped || rank.end == RankEnd::kKilled) {
    return rank.suspended ? "somebody suspended it: `kill -CONT` lets such a process go on"
                          : "look where it stands with gdb -p PID the next time, or whether its "
                            "machine or disk hangs";
  }
  if (lost_its_peers(rank)) {
    if (rank.error->error.find("; try ") != std::string::npos) return "";  // it says so itself
    return "no rank gave a reason of its own: look at the last lines of each rank, and at the "
           "network";
  }
  if (!rank.error && rank.log.empty()) {
    return "its output above tells more; --log-dir DIR keeps the output of each rank apart";
  }
  return "";
}

/// Puts `label` in front of the first line and keeps the others aligned below it.
std::string entry(std::string_view label, std::string_view text) {
  std::string out = fmt::format("  {:<8}", label);
  for (char c : text) {
    out += c;
    if (c == '\n') out.append(10, ' ');
  }
  return out + "\n";
}

}  // namespace

std::string RankReport::reason() const {
  if (error && error->kind.empty()) return error->error;
  if (error && error->error.starts_with(error->kind)) return error->error;
  if (error) return fmt::format("{}: {}", error->kind, error->error);
  if (end == RankEnd::kStopped || end == RankEnd::kKilled) {
    return fmt::format("{}: the others waited for it in vain",
                       suspended ? "was suspended by a signal (SIGSTOP or the like)" : "was stuck");
  }
  if (end == RankEnd::kSucceeded) return "ended without an error while others waited for it";
  if (out_of_memory) {
    return fmt::format(
        "was ended by {} while the kernel had no memory left and ended processes; it held {} at "
        "most",
        signal_name(signal), human_bytes(peak_bytes));
  }
  if (signal != 0) return fmt::format("was ended by {}", signal_name(signal));
  return fmt::format("ended with exit code {}", exit_code);
}

std::string RankReport::place() const {
  const std::string step = activity.step > 0 ? fmt::format("step {}", activity.step) : "";
  if (activity.operation.empty()) return step;
  return fmt::format("`{}`{}{}", activity.operation, step.empty() ? "" : " of ", step);
}

size_t find_culprit(const std::vector<RankReport>& ranks) {
  const auto order = [&](const RankReport& rank) {
    return std::tuple(!rank.early, lost_its_peers(rank), failure_time(rank));
  };
  size_t best = 0;
  for (size_t i = 1; i < ranks.size(); ++i) {
    if (order(ranks[i]) < order(ranks[best])) best = i;
  }
  if (!lost_its_peers(ranks[best])) return best;
  size_t most = 0;
  for (size_t i = 0; i < ranks.size(); ++i) {
    const size_t times = missed_by(ranks[i], ranks);
    if (times > most) best = i;
    most = std::max(most, times);
  }
  const bool in_vain = ranks[best].error && !ranks[best].error->missing.empty();
  if (most > 0 || !in_vain) return best;
  // A missing rank may have waited for another one itself. At the end of such a chain is a rank
  // that waited for nobody, but hangs.
  for (const bool suspended : {true, false}) {
    for (size_t i = 0; i < ranks.size(); ++i) {
      if (hangs(ranks[i]) && ranks[i].suspended == suspended) return i;
    }
  }
  return best;
}

int FailureReport::exit_code() const {
  const RankReport& rank = culprit();
  return rank.end == RankEnd::kFailed && rank.exit_code != 0 ? rank.exit_code : 1;
}

bool FailureReport::worth_a_restart() const {
  const RankReport& rank = culprit();
  const std::string kind = rank.error ? rank.error->kind : "";
  return kind != "UsageError" && kind != "Stopped" && rank.exit_code != 126 &&
         rank.exit_code != 127;
}

std::string FailureReport::to_text() const {
  const RankReport& rank = culprit();
  const std::string& where = rank.error && !rank.error->host.empty() ? rank.error->host : rank.host;
  std::string text =
      fmt::format("[launch] rank {} {}\n", rank.rank,
                  ranks.size() > 1 ? "failed first, so all ranks were stopped" : "failed");
  text += entry("where", fmt::format("rank {} of {}, host {}, process {}, after {}", rank.rank,
                                     ranks.size(), where, rank.pid, human_seconds(rank.seconds)));
  text += entry("why", rank.reason());
  if (const std::string place = rank.place(); !place.empty()) text += entry("while", place);
  if (rank.error) {
    text += entry("end", rank.signal != 0 ? signal_name(rank.signal)
                                          : fmt::format("exit code {}", rank.exit_code));
  }
  if (!rank.log_tail.empty()) {
    text += entry(
        "log", fmt::format("{} ends with\n| {}", rank.log.string(), join(rank.log_tail, "\n| ")));
  }
  std::vector<std::pair<std::string, std::vector<int>>> others;
  for (size_t i = 0; i < ranks.size(); ++i) {
    if (i == first) continue;
    const std::string what = consequence(ranks[i], rank);
    auto group = std::find_if(others.begin(), others.end(),
                              [&](const auto& other) { return other.first == what; });
    if (group == others.end()) group = others.insert(group, {what, {}});
    group->second.push_back(ranks[i].rank);
  }
  std::vector<std::string> lines;
  for (const auto& [what, who] : others) {
    lines.push_back(
        fmt::format("rank{} {} {}", who.size() > 1 ? "s" : "", compact_numbers(who), what));
  }
  if (!lines.empty()) text += entry("others", join(lines, "\n"));
  if (const std::string hint = advice(rank); !hint.empty()) text += entry("try", hint);
  return text;
}

Json FailureReport::to_json() const {
  Json list = Json::array();
  for (const RankReport& rank : ranks) list.push_back(launch::to_json(rank));
  return {{"command", command},           {"host", culprit().host},
          {"first_rank", culprit().rank}, {"reason", culprit().reason()},
          {"exit_code", exit_code()},     {"ranks", std::move(list)}};
}

// An unknown text is read as the first value, kFailed.
NLOHMANN_JSON_SERIALIZE_ENUM(RankEnd, {{RankEnd::kFailed, "failed"},
                                       {RankEnd::kSucceeded, "succeeded"},
                                       {RankEnd::kStopped, "stopped"},
                                       {RankEnd::kKilled, "killed"}})

Json to_json(const RankReport& rank) {
  const RankError said = rank.error.value_or(RankError{});
  return {{"rank", rank.rank},
          {"host", rank.host},
          {"pid", rank.pid},
          {"end", rank.end},
          {"exit_code", rank.exit_code},
          {"signal", rank.signal == 0 ? Json() : Json(signal_name(rank.signal))},
          {"signal_number", rank.signal},
          {"seconds", rank.seconds},
          {"end_time", rank.end_time},
          {"kind", rank.error ? Json(said.kind) : Json()},
          {"error", rank.error ? Json(said.error) : Json()},
          {"error_time", said.time},
          {"missing", said.missing},
          {"step", rank.activity.step},
          {"operation", rank.activity.operation},
          {"peak_bytes", rank.peak_bytes},
          {"out_of_memory", rank.out_of_memory},
          {"suspended", rank.suspended},
          {"early", rank.early},
          {"log", rank.log.empty() ? Json() : Json(rank.log.string())},
          {"log_tail", rank.log_tail}};
}

RankReport rank_report_from_json(const Json& json) {
  RankReport out;
  read_value(json.at("rank"), out.rank);
  read_value(json.at("host"), out.host);
  read_value(json.at("pid"), out.pid);
  read_value(json.at("end"), out.end);
  read_value(json.at("exit_code"), out.exit_code);
  read_value(json.at("signal_number"), out.signal);
  read_value(json.at("seconds"), out.seconds);
  read_value(json.at("end_time"), out.end_time);
  if (json.at("error").is_string()) {
    RankError said{.rank = out.rank, .host = out.host, .pid = out.pid};
    read_value(json.at("kind"), said.kind);
    read_value(json.at("error"), said.error);
    read_value(json.at("error_time"), said.time);
    read_value(json.at("missing"), said.missing);
    out.error = said;
  }
  read_value(json.at("step"), out.activity.step);
  read_value(json.at("operation"), out.activity.operation);
  read_value(json.at("peak_bytes"), out.peak_bytes);
  read_value(json.at("out_of_memory"), out.out_of_memory);
  read_value(json.at("suspended"), out.suspended);
  read_value(json.at("early"), out.early);
  if (json.at("log").is_string()) out.log = json.at("log").get<std::string>();
  read_value(json.at("log_tail"), out.log_tail);
  return out;
}

}  // namespace convoy::launch
