#include "convoy/launch/hosts/host_agent.h"

#include <poll.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "convoy/base/error.h"
#include "convoy/base/json_value.h"
#include "convoy/base/text.h"
#include "convoy/launch/environment.h"
#include "convoy/launch/hosts/listening.h"
#include "convoy/launch/hosts/rendezvous_client.h"
#include "convoy/launch/hosts/rendezvous_server.h"
#include "convoy/launch/hosts/secret.h"
#include "convoy/launch/signals.h"
#include "convoy/launch/stop_signal.h"
#include "convoy/launch/supervise/agent_common.h"
#include "convoy/launch/supervise/kept_memory.h"
#include "convoy/launch/supervise/rank_processes.h"
#include "convoy/launch/supervise/shown_command.h"

namespace convoy::launch {
namespace {

constexpr double kTakenSeconds = 5;  // in which whoever has the port shows to be of this job

class HostAgent {
 public:
  HostAgent(const LaunchOptions& options, const HostOptions& host)
      : options_(options), host_(host), output_queue_(options) {
    const std::string secret = read_secret(host.token_file, process_variable);
    auto listening = listen_at(host.endpoint, host.serves, host.local_address);
    endpoint_ = listening.endpoint;
    taken_ = listening.taken;
    if (host.serves_only && listening.sockets.empty()) {
      fail<UsageError>("launch", "--serve-only cannot serve the rendezvous at {}: {}",
                       host.endpoint.to_text(),
                       taken_ ? fmt::format("{}; try another port, the same on all hosts",
                                            std::strerror(EADDRINUSE))
                              : "this host does not have that address; try --rdzv-endpoint with "
                                "its own, or --rdzv-conf is_host=true");
    }
    if (!listening.sockets.empty()) {
      output_queue_.say(fmt::format(
          "[launch] serving the rendezvous of {} hosts at {}{}\n", wanted(host.rendezvous),
          endpoint_.to_text(), listening.guessed ? "; --local-addr ADDRESS chooses another" : ""));
      server_ = std::make_unique<RendezvousServer>(
          std::move(listening.sockets), host.rendezvous, secret,
          [this](const std::string& text) { output_queue_.say(text + "\n"); });
    }
    client_ = std::make_unique<RendezvousClient>(endpoint_, host.rendezvous.run_id, secret,
                                                 host.local_address);
  }

  int run() {
    connect();
    if (channel_) send_ready();
    while (!code_) {
      obey_signals();
      if (!channel_) break;
      channel_->pump(host_.rendezvous.heartbeat_timeout / 4);
      while (const auto message = channel_->next()) handle(*message);
      if (code_) break;
      if (ranks_) {
        look_after_ranks();
      } else {
        pollfd watched{channel_->fd(), POLLIN, 0};
        ::poll(&watched, 1, 20);
      }
      check_channel();
    }
    channel_.reset();
    return code_.value_or(128 + interrupted_by_);
  }

 private:
  void connect() {
    const double since = steady_time();
    bool warned = false;
    while (!channel_) {
      channel_ = client_->step();
      if (client_->met_a_stranger() && !std::exchange(warned, true)) {
        output_queue_.say(
            fmt::format("[launch] no rendezvous at {} yet: {}; trying on; expected the "
                        "same secret on all hosts\n",
                        endpoint_.to_text(), client_->trouble()));
      }
      pollfd watched{client_->fd(), POLLIN, 0};
      if (!channel_) ::poll(&watched, 1, 20);
      if (const auto signal = signals_.next()) {
        interrupted_by_ = *signal;
        channel_.reset();
        return;
      }
      const double waited = steady_time() - since;
      if (!channel_ && taken_ && (client_->met_a_stranger() || waited > kTakenSeconds)) {
        fail<UsageError>(
            "launch",
            "cannot serve the rendezvous at {}: {}, and who has it is no rendezvous of this job "
            "({}); try another port, the same on all hosts",
            endpoint_.to_text(), std::strerror(EADDRINUSE), client_->trouble());
      }
      if (!channel_ && waited > host_.rendezvous.join_timeout) {
        fail<CommunicationError>(
            "launch",
            "no rendezvous at {} within {}: {}; expected the host that has this address to run "
            "convoy launch too, and no firewall between",
            endpoint_.to_text(), human_seconds(host_.rendezvous.join_timeout), client_->trouble());
      }
    }
  }

  void send_ready() {
    if (host_.serves_only) {
      channel_->send({{"type", "ready"},
                      {"host", host_name()},
                      {"serves", true},
                      {"serves_only", true},
                      {"max_nodes", host_.rendezvous.max_nodes},
                      {"num_ranks", 0},
                      {"port", 0}});
      return;
    }
    const std::string own =
        host_.local_address.empty() ? client_->own_address().host() : host_.local_address;
    channel_->send({{"type", "ready"},
                    {"host", host_name()},
                    {"address", host_.local_address},
                    {"serves", server_ != nullptr},
                    {"node_rank", host_.node_rank},
                    {"max_nodes", host_.rendezvous.max_nodes},
                    {"save_timeout", host_.rendezvous.save_timeout},
                    {"num_ranks", options_.num_ranks},
                    {"port", options_.master_port > 0 ? options_.master_port : free_port(own)},
                    {"command", shown_command(options_.command)}});
  }

  void handle(const Json& message) {
    const std::string type = message.at("type");
    if (type == "start") {
      start(message);
    } else if (type == "started") {
      // Of any start: the first ones may have begun before this host could hear of them.
      remove_old_logs(options_, value_from<int>(message.at("world_size")),
                      value_from<double>(message.at("job_start")));
      logs_ = log_folder(options_, value_from<int>(message.at("round")));
      say_table(message.at("table"));
    } else if (type == "report") {
      tell(message);
    } else if (type == "stop" && ranks_ && interrupted_by_ == 0) {
      message.at("save").get<bool>() ? ranks_->interrupt(SIGTERM) : ranks_->stop();
    } else if (type == "again") {
      tell(message);
      if (memory_ && message.contains("copies")) judge_copies(message["copies"]);
      if (interrupted_by_ == 0) send_ready();
      if (interrupted_by_ != 0) code_ = 128 + interrupted_by_;
    } else if (type == "finish") {
      tell(message);
      output_queue_.say(printable_lines(message.at("text").get<std::string>()));
      code_ = value_from<int>(message.at("code"));
    } else if (type == "wait") {
      output_queue_.say(
          fmt::format("[launch] {}\n", printable(message.at("why").get<std::string>())));
    } else if (type == "refuse") {
      fail<UsageError>("launch", "the rendezvous at {} refused this host: {}", endpoint_.to_text(),
                       message.at("why").get<std::string>());
    }
  }

  void tell(const Json& message) {
    if (!message.contains("report")) return;
    const Json& report = message["report"];
    std::vector<RankReport> ranks;
    for (const Json& rank : report.at("ranks")) ranks.push_back(rank_report_from_json(rank));
    tell_failure(options_, output_queue_, FailureReport(report.at("command"), std::move(ranks)),
                 logs_);
  }

  void start(const Json& message) {
    NodeInfo node;
    read_value(message.at("node_rank"), node.node_rank);
    read_value(message.at("num_nodes"), node.num_nodes);
    read_value(message.at("first_rank"), node.first_rank);
    read_value(message.at("world_size"), node.world_size);
    read_value(message.at("master_addr"), node.master_addr);
    read_value(message.at("master_port"), node.master_port);
    read_value(message.at("round"), node.round);
    read_value(message.at("restarts"), node.restarts);
    read_value(message.at("job_start"), node.job_start);
    read_value(message.at("run_id"), node.run_id);
    const std::string& own = host_.local_address;
    const auto named = own.empty() ? std::vector<Address>() : Address::resolve(own, 0);
    node.interface = (named.empty() ? client_->own_address() : named[0]).interface();
    if (server_) say_table(message.at("table"));
    told_ = Told::kNothing;
    keep_memory(message.value("keeps_memory", false), node.round);
    if (memory_) node.kept_memory = std::filesystem::absolute(memory_->folder()).string();
    node_ = node;
    try {
      if (node.round == 0) remove_old_logs(options_, node.world_size, node.job_start);
      logs_ = log_folder(options_, node.round);
      ranks_ = std::make_unique<RankProcesses>(options_, output_queue_, node,
                                               errors_.make(node.round), logs_);
    } catch (const Error& error) {
      RankReport report{.rank = node.first_rank, .host = host_name()};
      report.end = RankEnd::kFailed;
      report.exit_code = 2;
      report.early = true;
      report.end_time = wall_time();
      report.error = RankError{.rank = report.rank,
                               .host = report.host,
                               .time = report.end_time,
                               .kind = "UsageError",
                               .error = error.what()};
      send_ended({report});
    }
  }

  /// Makes the memory in which ranks leave copies. Drops the copies where this host missed a round:
  /// the other hosts may have gone on from others.
  void keep_memory(bool keeps, int round) {
    const bool took_part = last_round_ == round - 1;
    last_round_ = round;
    if (!keeps) return;
    if (!memory_) {
      memory_ = launch::keep_memory(errors_.path() / "memory", output_queue_);
    } else if (!took_part) {
      memory_->forget();
      memory_->trust();
    }
  }

  /// Judges the copies after a failure, as the rendezvous says; the first host tells of it.
  void judge_copies(const Json& copies) {
    const bool dropped = memory_->judge(copies.at("drop").get<bool>());
    if (!dropped || node_.node_rank > 0) return;
    output_queue_.say(told_dropped(value_from<int64_t>(copies.at("step"))));
  }

  void say_table(const Json& table) {
    std::vector<std::string> hosts;
    for (const Json& row : table) {
      const auto first = value_from<int>(row.at("first_rank"));
      std::vector<int> ranks;
      for (int i = 0; i < value_from<int>(row.at("num_ranks")); ++i) ranks.push_back(first + i);
      hosts.push_back(fmt::format("{} ({}) rank{} {}", row.at("host").get<std::string>(),
                                  row.at("address").get<std::string>(), ranks.size() > 1 ? "s" : "",
                                  compact_numbers(ranks)));
    }
    output_queue_.say(fmt::format("[launch] starting on {}: {}\n",
                                  plural(std::ssize(hosts), "host"), join(hosts, "; ")));
  }

  void look_after_ranks() {
    if (!ranks_->tick()) {
      auto reports = ranks_->reports();
      ranks_.reset();
      return send_ended(reports);
    }
    const Told now = !ranks_->failed()     ? Told::kNothing
                     : ranks_->has_cause() ? Told::kCause
                                           : Told::kFailure;
    if (now > told_) channel_->send({{"type", "failing"}, {"cause", now == Told::kCause}});
    told_ = std::max(told_, now);
  }

  void send_ended(const std::vector<RankReport>& reports) {
    bool succeeded = true;
    Json ranks = Json::array();
    for (const RankReport& report : reports) {
      succeeded &= report.end == RankEnd::kSucceeded;
      ranks.push_back(to_json(report));
    }
    channel_->send(
        {{"type", "ended"}, {"succeeded", succeeded}, {"time", wall_time()}, {"ranks", ranks}});
  }

  void obey_signals() {
    while (const auto signal = signals_.next()) {
      if (interrupted_by_ == 0) {
        interrupted_by_ = *signal;
        interrupted_at_ = std::chrono::steady_clock::now();
        channel_->send({{"type", "leave"}, {"signal", *signal}});
      } else if (!ranks_ && hurries(*signal, std::chrono::steady_clock::now() - interrupted_at_)) {
        code_ = 128 + interrupted_by_;
      }
      if (ranks_) ranks_->interrupt(*signal);
    }
  }

  /// Ends the ranks where the connection to the rendezvous is lost: without it nothing tells about
  /// the other hosts.
  void check_channel() {
    const double timeout = host_.rendezvous.heartbeat_timeout;
    std::string why = channel_->why_ended();
    if (why.empty() && channel_->silent_seconds() > timeout) {
      why = fmt::format("silent for {:g} s", timeout);
    }
    if (why.empty()) return;
    if (ranks_) {
      ranks_->stop();
      while (ranks_->tick()) {
        if (const auto signal = signals_.next()) ranks_->interrupt(*signal);
      }
      ranks_.reset();
    }
    channel_.reset();
    if (interrupted_by_ != 0) return;
    fail<CommunicationError>("launch",
                             "the host of the rendezvous at {} is gone: {}; the ranks of this host "
                             "were stopped; try to start again on all hosts",
                             endpoint_.to_text(), why);
  }

  enum class Told { kNothing, kFailure, kCause };

  const LaunchOptions options_;
  const HostOptions host_;
  OutputQueue output_queue_;  // ends last: then a signal ends whoever waits for the terminal
  const PrivateFolder errors_{"convoy-launch"};
  SignalCatcher signals_;
  Endpoint endpoint_;
  bool taken_ = false;  // its port on this host is somebody else's, perhaps another agent's
  std::unique_ptr<RendezvousServer> server_;
  std::unique_ptr<RendezvousClient> client_;
  std::unique_ptr<HostChannel> channel_;
  std::unique_ptr<KeptMemory> memory_;
  int last_round_ = -1;
  std::unique_ptr<RankProcesses> ranks_;
  NodeInfo node_;
  std::filesystem::path logs_;
  Told told_ = Told::kNothing;
  int interrupted_by_ = 0;
  std::chrono::steady_clock::time_point interrupted_at_;
  std::optional<int> code_;
};

}  // namespace

int run_ranks_of_host(const LaunchOptions& options, const HostOptions& host) {
  check(options);
  return HostAgent(options, host).run();
}

int serve_rendezvous(const LaunchOptions& options, const HostOptions& host) {
  check_numbers(options);
  auto serving = host;
  serving.serves_only = true;
  return HostAgent(options, serving).run();
}

}  // namespace convoy::launch
