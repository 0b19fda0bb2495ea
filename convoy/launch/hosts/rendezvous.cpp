#include "convoy/launch/hosts/rendezvous.h"

#include <algorithm>
#include <tuple>

#include "convoy/base/error.h"
#include "convoy/base/json_value.h"
#include "convoy/base/text.h"
#include "convoy/launch/process.h"

namespace convoy::launch {
namespace {

// Seconds to wait for further reports, as in RankProcesses: a host whose rank only lost its peers
// often reports before the host that failed.
constexpr double kSettleSeconds = 1;
constexpr int kLost = 3;  // exit code of a CommunicationError

}  // namespace

std::string wanted(const RendezvousOptions& options) {
  return options.min_nodes == options.max_nodes
             ? fmt::format("{}", options.min_nodes)
             : fmt::format("{} to {}", options.min_nodes, options.max_nodes);
}

Rendezvous::Rendezvous(RendezvousOptions options, Send send, Say say)
    : options_(std::move(options)),
      send_(std::move(send)),
      say_(std::move(say)),
      budget_(options_.max_restarts) {}

void Rendezvous::join(int id, const std::string& address, double now) {
  if (job_start_ == 0) job_start_ = waiting_since_ = now;
  members_[id].address = address;
}

void Rendezvous::receive(int id, const Json& message, double now) {
  const auto found = members_.find(id);
  if (found == members_.end() || state_ == State::kOver) return;
  Member& member = found->second;
  try {
    const std::string type = message.value("type", "");
    if (type == "ready") {
      ready(id, member, message, now);
    } else if (type == "failing" && state_ == State::kRunning && member.in_round) {
      const double wait = message.value("cause", false) ? 0 : kSettleSeconds;
      stop_at_ = std::min(stop_at_.value_or(now + wait), now + wait);
    } else if (type == "ended" && member.in_round && member.phase == Phase::kRunning) {
      ended(member, message, now);
    } else if (type == "leave") {
      leave(id, value_at(message, "signal", 15), now);
    }
  } catch (const Json::exception& error) {
    lose(id, fmt::format("it sent what makes no sense: {}", error.what()), now);
  }
}

void Rendezvous::ready(int id, Member& member, const Json& message, double now) {
  if (member.phase != Phase::kJoined) return;
  member.host = message.at("host").get<std::string>();
  member.wanted_rank = value_at(message, "node_rank", -1);
  member.num_ranks = value_from<int>(message.at("num_ranks"));
  member.port = value_from<int>(message.at("port"));
  member.save_timeout = value_at(message, "save_timeout", 0.0);
  if (const auto address = message.value("address", ""); !address.empty()) member.address = address;
  const auto refuse = [&](const std::string& why) {
    say_(fmt::format("[launch] {} is refused: {}", who(member), why));
    send_(id, {{"type", "refuse"}, {"why", why}});
    members_.erase(id);
  };
  if (const int asked = value_at(message, "max_nodes", options_.max_nodes);
      asked != options_.max_nodes) {
    return refuse(
        fmt::format("it waits for {} hosts at most, the rendezvous for {}; expected the "
                    "same --nnodes on all hosts",
                    asked, options_.max_nodes));
  }
  if (message.value("serves", false)) host_member_ = id;
  if (message.value("serves_only", false)) {
    member.phase = Phase::kServing;
    return;
  }
  if (member.num_ranks < 1) {
    return refuse(fmt::format("it has {} ranks; expected at least 1", member.num_ranks));
  }
  if (command_.empty()) command_ = message.value("command", "");
  for (const auto& [other_id, other] : members_) {
    if (other_id == id || member.wanted_rank < 0 || other.wanted_rank != member.wanted_rank)
      continue;
    return refuse(fmt::format("--node-rank {} is taken by {}; expected another number",
                              member.wanted_rank, who(other)));
  }
  member.phase = Phase::kReady;
  const bool is_new = member.node_rank < 0;
  last_came_ = now;
  if (!is_new || state_ == State::kWaiting) return;
  if (state_ == State::kRunning && last_size_ < options_.max_nodes) {
    say_(fmt::format("[launch] {} came; forming the job anew", who(member)));
    stop(Reason::kMembership, true, now);
  } else if (state_ == State::kRunning) {
    send_(id, {{"type", "wait"},
               {"why", fmt::format("the job has its {}; waiting for a free place",
                                   plural(options_.max_nodes, "host"))}});
  }
}

void Rendezvous::ended(Member& member, const Json& message, double now) {
  member.phase = Phase::kEnded;
  member.succeeded = message.at("succeeded").get<bool>();
  // The clocks of two hosts may differ by more than the time between two failures.
  const double offset = now - value_from<double>(message.at("time"));
  member.reports.clear();
  for (const Json& one : message.at("ranks")) {
    RankReport report = rank_report_from_json(one);
    report.end_time += offset;
    if (report.error && report.error->time > 0) report.error->time += offset;
    member.reports.push_back(std::move(report));
  }
  if (state_ == State::kRunning && !member.succeeded) stop(Reason::kFailure, false, now);
  if (all_in_round(Phase::kEnded)) conclude(now);
}

void Rendezvous::leave(int id, int signal, double now) {
  Member& member = members_.at(id);
  const auto text = fmt::format("[launch] {} was stopped by {}", who(member), signal_name(signal));
  member.leave_signal = signal;
  if (member.in_round || id != host_member_) say_(text);
  const bool ends_all = member.phase == Phase::kServing && state_ != State::kWaiting;
  if (member.in_round || ends_all) {
    if (state_ == State::kRunning) stop(Reason::kLeave, true, now);
  } else if (id == host_member_) {
    finish(128 + signal, text + "\n");
  } else {
    send_(id, {{"type", "finish"}, {"code", 128 + signal}, {"text", ""}});
    members_.erase(id);
  }
}

void Rendezvous::lose(int id, const std::string& why, double now) {
  const auto found = members_.find(id);
  if (found == members_.end()) return;
  const Member member = found->second;
  members_.erase(found);
  if (state_ == State::kOver || member.host.empty()) return;
  loss_ = fmt::format("{} was lost ({})", who(member), why);
  say_(fmt::format("[launch] {} is lost: {}", who(member), why));
  if (state_ == State::kWaiting || !member.in_round) return;
  lost_one_ = true;
  if (state_ == State::kRunning) {
    stop(Reason::kMembership, false, now);
  } else if (reason_ == Reason::kFailure) {
    reason_ = Reason::kMembership;
  }
  if (all_in_round(Phase::kEnded)) conclude(now);
}

void Rendezvous::tick(double now) {
  if (job_start_ == 0) return;
  if (state_ == State::kWaiting) {
    wait_for_hosts(now);
  } else if (state_ == State::kRunning && stop_at_ && now >= *stop_at_) {
    stop(Reason::kFailure, false, now);
  } else if (state_ == State::kStopping && now - stopping_since_ > most_seconds_to_stop()) {
    std::vector<int> mute;
    for (const auto& [id, member] : members_) {
      if (member.in_round && member.phase == Phase::kRunning) mute.push_back(id);
    }
    for (int id : mute) lose(id, "it does not say how its ranks ended", now);
  }
}

/// Returns the seconds in which hosts that stop must say how their ranks ended.
double Rendezvous::most_seconds_to_stop() const {
  if (!saves_) return options_.answer_timeout;
  double out = options_.save_timeout;
  for (const auto& [id, member] : members_) {
    if (member.in_round) out = std::max(out, member.save_timeout);
  }
  return out;
}

/// The host that serves without ranks of its own; null: there is none.
const Rendezvous::Member* Rendezvous::serving_only() const {
  const auto host = members_.find(host_member_);
  const bool serves = host != members_.end() && host->second.phase == Phase::kServing;
  return serves ? &host->second : nullptr;
}

/// Members that would take part if the job started now, by node rank.
std::vector<int> Rendezvous::candidates() const {
  std::vector<int> out;
  for (const auto& [id, member] : members_) {
    if (member.phase == Phase::kReady) out.push_back(id);
  }
  const auto order = [&](int id) {
    const Member& member = members_.at(id);
    return std::tuple(member.wanted_rank < 0, member.wanted_rank, member.node_rank < 0,
                      member.node_rank, id);
  };
  std::sort(out.begin(), out.end(), [&](int a, int b) { return order(a) < order(b); });
  if (out.size() > static_cast<size_t>(options_.max_nodes)) {
    out.resize(static_cast<size_t>(options_.max_nodes));
  }
  return out;
}

void Rendezvous::wait_for_hosts(double now) {
  const int here = static_cast<int>(candidates().size());
  const bool all_ready = std::all_of(members_.begin(), members_.end(), [](const auto& member) {
    const Phase phase = member.second.phase;
    return phase == Phase::kReady || phase == Phase::kServing || member.second.host.empty();
  });
  const bool complete = here == options_.max_nodes || (last_size_ > 0 && here >= last_size_);
  const bool last_call_over =
      here >= options_.min_nodes &&
      now - std::max(last_came_, waiting_since_) >= options_.last_call_timeout;
  if (all_ready && here > 0 && (complete || last_call_over)) return start(now);
  // A job that ran is not worth keeping hosts idle for long.
  const bool ran = last_size_ > 0;
  const double patience = ran ? options_.last_call_timeout : options_.join_timeout;
  if (here >= options_.min_nodes || (ran && !all_ready) || now - waiting_since_ < patience) return;
  std::vector<std::string> names;
  for (int id : candidates()) names.push_back(who(members_.at(id)));
  if (ran) {
    return finish(
        kLost,
        fmt::format("[launch] only {} of {} hosts left after {}, and no other came within {} "
                    "(last_call_timeout); train again with --resume_from_checkpoint latest\n",
                    here, wanted(options_), loss_.empty() ? "a restart" : loss_,
                    human_seconds(patience)));
  }
  finish(kLost, fmt::format("[launch] only {} of {} hosts came within {}: {}; expected the same "
                            "--rdzv-endpoint and secret on all, and no firewall between them\n",
                            here, wanted(options_), human_seconds(options_.join_timeout),
                            convoy::join(names)));
}

void Rendezvous::start(double now) {
  const auto chosen = candidates();
  int world = 0;
  Json table = Json::array();
  for (size_t i = 0; i < chosen.size(); ++i) {
    Member& member = members_.at(chosen[i]);
    member.node_rank = static_cast<int>(i);
    table.push_back({{"host", member.host},
                     {"address", member.address},
                     {"first_rank", world},
                     {"num_ranks", member.num_ranks}});
    world += member.num_ranks;
  }
  const Member& master = members_.at(chosen[0]);
  for (size_t i = 0; i < chosen.size(); ++i) {
    Member& member = members_.at(chosen[i]);
    member.phase = Phase::kRunning;
    member.in_round = true;
    send_(chosen[i], {{"type", "start"},
                      {"round", round_},
                      {"restarts", restarts_},
                      {"node_rank", i},
                      {"num_nodes", chosen.size()},
                      {"first_rank", table[i]["first_rank"]},
                      {"world_size", world},
                      {"master_addr", master.address},
                      {"master_port", master.port},
                      {"job_start", job_start_},
                      {"run_id", options_.run_id},
                      {"keeps_memory", options_.may_start_again()},
                      {"table", table}});
  }
  if (serving_only() != nullptr) {
    send_(host_member_, {{"type", "started"},
                         {"round", round_},
                         {"world_size", world},
                         {"job_start", job_start_},
                         {"table", table}});
  }
  state_ = State::kRunning;
  reason_ = Reason::kNone;
  stop_at_.reset();
  lost_one_ = false;
  last_size_ = static_cast<int>(chosen.size());
  ++round_;
}

void Rendezvous::stop(Reason reason, bool save, double now) {
  state_ = State::kStopping;
  reason_ = reason;
  saves_ = save || reason == Reason::kLeave;
  stopping_since_ = now;
  for (const auto& [id, member] : members_) {
    if (!member.in_round || member.phase != Phase::kRunning || member.leave_signal != 0) continue;
    send_(id, {{"type", "stop"}, {"save", save}});
  }
}

bool Rendezvous::all_in_round(Phase phase) const {
  return std::all_of(members_.begin(), members_.end(), [&](const auto& member) {
    return !member.second.in_round || member.second.phase == phase;
  });
}

void Rendezvous::conclude(double now) {
  int signal = 0;
  bool succeeded = true;
  int staying = 0;
  for (const auto& [id, member] : members_) {
    signal = std::max(signal, member.leave_signal);
    if (member.leave_signal == 0 && member.phase != Phase::kServing) ++staying;
    if (member.in_round) succeeded &= member.succeeded;
  }
  const bool any = std::any_of(members_.begin(), members_.end(),
                               [](const auto& member) { return member.second.in_round; });
  if (any && succeeded && !lost_one_) return finish(0, "");
  if (reason_ == Reason::kFailure) return after_failure(now);
  if (signal != 0) {
    const auto host = members_.find(host_member_);
    const bool host_stays = host != members_.end() && host->second.leave_signal == 0;
    if (!host_stays || staying < options_.min_nodes) {
      return finish(128 + signal, fmt::format("[launch] stopped by {}; all ranks have ended\n",
                                              signal_name(signal)));
    }
    for (auto it = members_.begin(); it != members_.end();) {
      if (it->second.leave_signal != 0) {
        send_(it->first, {{"type", "finish"}, {"code", 128 + signal}, {"text", ""}});
        it = members_.erase(it);
      } else {
        ++it;
      }
    }
  }
  say_(staying < options_.min_nodes
           ? fmt::format("[launch] waiting {} for another host; {} of {} are left",
                         human_seconds(options_.last_call_timeout), staying, wanted(options_))
           : fmt::format("[launch] forming the job anew with {} of {} hosts", staying,
                         wanted(options_)));
  again(now);
}

void Rendezvous::after_failure(double now) {
  std::vector<RankReport> ranks;
  for (const auto& [id, member] : members_) {
    if (member.in_round) ranks.insert(ranks.end(), member.reports.begin(), member.reports.end());
  }
  std::sort(ranks.begin(), ranks.end(),
            [](const RankReport& a, const RankReport& b) { return a.rank < b.rank; });
  if (ranks.empty()) return finish(1, "[launch] the ranks failed and left no report\n");
  const FailureReport report(command_, std::move(ranks));
  const Json json = report.to_json();
  if (const auto* host = serving_only(); host != nullptr && host->leave_signal != 0) {
    return finish(128 + host->leave_signal, "[launch] stopped; all ranks have ended\n", json);
  }
  if (!budget_.take(report)) {
    return finish(report.exit_code(),
                  fmt::format("[launch] rank {} on {} failed first: {}\n", report.culprit().rank,
                              report.culprit().host, report.culprit().reason()),
                  json);
  }
  ++restarts_;
  again(now, json, {{"drop", budget_.failed_again()}, {"step", budget_.failed_step()}});
  say_(fmt::format("[launch] starting all ranks again ({})", budget_.to_text()));
}

/// Lets the hosts get ready for another round. `copies`: of a failure, whether it was in the step
/// of the one before, so that what the ranks left in memory may be the reason.
void Rendezvous::again(double now, const Json& report, const Json& copies) {
  state_ = State::kWaiting;
  waiting_since_ = last_came_ = now;
  if (serving_only() != nullptr && !report.is_null()) {
    send_(host_member_, {{"type", "report"}, {"report", report}});
  }
  for (auto& [id, member] : members_) {
    if (!member.in_round) continue;
    member.in_round = false;
    member.phase = Phase::kJoined;
    Json message = {{"type", "again"}};
    if (!copies.is_null()) message["copies"] = copies;
    if (id == host_member_ && !report.is_null()) message["report"] = report;
    send_(id, message);
  }
}

void Rendezvous::finish(int code, const std::string& text, const Json& report) {
  state_ = State::kOver;
  for (const auto& [id, member] : members_) {
    Json message = {{"type", "finish"}, {"code", code}, {"text", text}};
    if (id == host_member_ && !report.is_null()) {
      message["report"] = report;
      message["text"] = "";
    }
    send_(id, message);
  }
}

std::string Rendezvous::who(const Member& member) const {
  return fmt::format("host {} ({})", member.host, member.address);
}

}  // namespace convoy::launch
