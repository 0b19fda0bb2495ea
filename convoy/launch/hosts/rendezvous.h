#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "convoy/base/json.h"
#include "convoy/launch/supervise/failure.h"
#include "convoy/launch/supervise/restart_budget.h"

namespace convoy::launch {

struct RendezvousOptions {
  int min_nodes = 1;
  int max_nodes = 1;
  int max_restarts = 0;
  double join_timeout = 600;  ///< seconds for the smallest number of hosts to come
  /// Seconds for more hosts to come once the smallest number is there, and for a replacement when
  /// too few are left.
  double last_call_timeout = 5;
  double heartbeat_timeout = 10;
  /// Seconds as answer_timeout, where the ranks may save before they end; the longest of the hosts
  /// of a round holds.
  double save_timeout = 60;
  double answer_timeout = 60;  ///< for a host to say how its ranks ended when told to stop them
  std::string run_id = "none";

  /// Whether ranks may be started again.
  bool may_start_again() const { return max_restarts > 0 || min_nodes < max_nodes; }
};

/// "2", or "1 to 4": the number of hosts that are asked for.
std::string wanted(const RendezvousOptions& options);

/// The rules by which hosts form a job, fail, start again and end: no sockets, no clock. A host
/// sends `ready` when its ranks can start, `failing` when one failed, `ended` when all have ended,
/// and `leave` when somebody stops it; it gets `start`, `stop`, `again` and `finish`. A host that
/// is ready as one that `serves_only` takes part in no round, and hears of each (`started`).
class Rendezvous {
 public:
  using Send = std::function<void(int member, const Json& message)>;
  using Say = std::function<void(const std::string&)>;

  Rendezvous(RendezvousOptions options, Send send, Say say);

  void join(int member, const std::string& address, double now);
  void receive(int member, const Json& message, double now);
  void lose(int member, const std::string& why, double now);
  /// Handles waits that are over at the time `now`: for hosts, for answers, before a stop. Call it
  /// often.
  void tick(double now);

  bool over() const { return state_ == State::kOver; }

 private:
  enum class State { kWaiting, kRunning, kStopping, kOver };
  enum class Reason { kNone, kFailure, kMembership, kLeave };
  enum class Phase { kJoined, kReady, kRunning, kEnded, kServing };

  struct Member {
    std::string host, address;
    int wanted_rank = -1;
    int node_rank = -1;  ///< in the present or last round
    int num_ranks = 0;
    int port = 0;
    double save_timeout = 0;
    Phase phase = Phase::kJoined;
    bool in_round = false;
    bool succeeded = false;
    int leave_signal = 0;
    std::vector<RankReport> reports;
  };

  void ready(int id, Member& member, const Json& message, double now);
  void ended(Member& member, const Json& message, double now);
  void leave(int id, int signal, double now);
  void wait_for_hosts(double now);
  void start(double now);
  void stop(Reason reason, bool save, double now);
  void conclude(double now);
  void after_failure(double now);
  void again(double now, const Json& report = {}, const Json& copies = {});
  void finish(int code, const std::string& text, const Json& report = {});
  const Member* serving_only() const;
  std::vector<int> candidates() const;
  std::string who(const Member& member) const;
  bool all_in_round(Phase phase) const;
  double most_seconds_to_stop() const;

  RendezvousOptions options_;
  Send send_;
  Say say_;
  State state_ = State::kWaiting;
  Reason reason_ = Reason::kNone;
  std::map<int, Member> members_;
  std::string command_;
  int host_member_ = -1;  ///< of the agent that serves the rendezvous; it gets the report
  int round_ = 0;
  int restarts_ = 0;
  RestartBudget budget_;
  int last_size_ = 0;
  bool lost_one_ = false;  ///< of this round
  std::string loss_;       ///< the last one, in words
  double job_start_ = 0;
  double waiting_since_ = 0;
  double last_came_ = 0;
  double stopping_since_ = 0;
  bool saves_ = false;  ///< ranks that are told to stop may save before
  std::optional<double> stop_at_;
};

}  // namespace convoy::launch
