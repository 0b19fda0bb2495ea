#include "convoy/launch/hosts/rendezvous_server.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>

#include "convoy/base/error.h"
#include "convoy/launch/error_file.h"
#include "convoy/launch/hosts/channel.h"
#include "convoy/launch/network.h"

namespace convoy::launch {
namespace {

constexpr size_t kMostVisitors = 256;
constexpr int kMostAtOnce = 32;  // a crowd must not keep the members waiting
constexpr double kGreetingSeconds = 10;
constexpr double kClosingSeconds = 2;

}  // namespace

/// State and loop of the server's thread.
class RendezvousServer::EventLoop {
 public:
  EventLoop(std::vector<Descriptor> listeners, RendezvousOptions options, std::string secret,
            Rendezvous::Say say)
      : listeners_(std::move(listeners)),
        heartbeat_timeout_(options.heartbeat_timeout),
        run_id_(options.run_id),
        secret_(std::move(secret)),
        say_(std::move(say)),
        rendezvous_(
            std::move(options), [this](int id, const Json& message) { tell(id, message); }, say_) {
    for (const Descriptor& listener : listeners_) set_nonblocking(listener.get());
  }

  void turn() {
    wait();
    accept();
    greet();
    listen();
    rendezvous_.tick(steady_time());
    for (auto& [id, channel] : members_) channel.pump(heartbeat_timeout_ / 4);
  }

  bool is_empty() const { return members_.empty(); }

 private:
  struct Visitor {
    LineSocket socket;
    double since = steady_time();
  };

  void wait() {
    std::vector<pollfd> watched;
    for (const auto& listener : listeners_) watched.push_back({listener.get(), POLLIN, 0});
    for (const auto& [id, visitor] : visitors_) watched.push_back({visitor.socket.fd(), POLLIN, 0});
    for (const auto& [id, channel] : members_) watched.push_back({channel.fd(), POLLIN, 0});
    ::poll(watched.data(), watched.size(), 50);
  }

  void accept() {
    for (const auto& listener : listeners_) accept(listener.get());
  }

  void accept(int listener) {
    for (int i = 0; i < kMostAtOnce; ++i) {
      Descriptor socket(::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC));
      if (socket.get() < 0) return;
      if (visitors_.size() >= kMostVisitors) make_room();
      visitors_.emplace(next_id_++, Visitor{LineSocket(std::move(socket), kLongestGreeting,
                                                       Tls(secret_, /*is_host=*/true))});
    }
  }

  /// Closes one connection that waits for admission, a random one of the address that has most. So
  /// a stranger displaces only connections from its own address, and cannot choose which.
  void make_room() {
    std::map<std::string, std::vector<int>> crowds;
    for (const auto& [id, visitor] : visitors_) crowds[visitor.socket.peer_host()].push_back(id);
    const auto& crowd = std::max_element(crowds.begin(), crowds.end(), [](auto& a, auto& b) {
                          return a.second.size() < b.second.size();
                        })->second;
    turn_away(crowd[random_() % crowd.size()], "too many connections at once");
  }

  void greet() {
    std::vector<std::pair<int, std::string>> away;
    for (auto it = visitors_.begin(); it != visitors_.end();) {
      auto& [id, visitor] = *it++;
      visitor.socket.pump();
      if (const auto line = visitor.socket.next()) {
        if (const auto why = admit(id, visitor, *line); !why.empty()) away.emplace_back(id, why);
      } else if (visitor.socket.ended()) {
        away.emplace_back(id, visitor.socket.why_ended());
      } else if (steady_time() - visitor.since > kGreetingSeconds) {
        away.emplace_back(id, "it said nothing");
      }
    }
    for (const auto& [id, why] : away) turn_away(id, why);
    for (int id : admitted_) visitors_.erase(id);
    admitted_.clear();
  }

  /// Admits a visitor, which has proven the secret by a line over the encrypted connection. Returns
  /// the reason to refuse one of another job, else "".
  std::string admit(int id, Visitor& visitor, const std::string& line) {
    const Json said = Json::parse(line, nullptr, false);
    const std::string why = text_of(said, "run_id") == run_id_ ? "" : "another --rdzv-id";
    visitor.socket.send(json_line({{"refused", why}}));
    visitor.socket.pump();
    if (!why.empty()) return why;
    const std::string host = visitor.socket.peer_host();
    members_.emplace(id, HostChannel(std::move(visitor.socket)));
    admitted_.push_back(id);
    rendezvous_.join(id, host, steady_time());
    return "";
  }

  /// Refuses a visitor, and reports it once for each address and reason: noise must not fill a log.
  void turn_away(int id, const std::string& why) {
    const LineSocket& socket = visitors_.at(id).socket;
    if (told_.size() < kMostVisitors && told_.insert(socket.peer_host() + why).second) {
      say_(fmt::format("[launch] turned {} away: {}", socket.peer(), why));
    }
    visitors_.erase(id);
  }

  void listen() {
    std::vector<std::pair<int, std::string>> gone;
    for (auto& [id, channel] : members_) {
      channel.pump(heartbeat_timeout_ / 4);
      while (const auto message = channel.next()) {
        rendezvous_.receive(id, *message, steady_time());
      }
      if (channel.ended()) {
        gone.emplace_back(id, channel.why_ended());
      } else if (channel.silent_seconds() > heartbeat_timeout_) {
        gone.emplace_back(id, fmt::format("silent for {:g} s", heartbeat_timeout_));
      }
    }
    for (const auto& [id, why] : gone) {
      members_.erase(id);
      rendezvous_.lose(id, why, steady_time());
    }
  }

  void tell(int id, const Json& message) {
    if (const auto found = members_.find(id); found != members_.end()) found->second.send(message);
  }

  std::vector<Descriptor> listeners_;
  double heartbeat_timeout_;
  std::string run_id_, secret_;
  Rendezvous::Say say_;
  std::map<int, Visitor> visitors_;
  std::map<int, HostChannel> members_;
  std::vector<int> admitted_;
  std::set<std::string> told_;
  std::mt19937 random_{std::random_device{}()};
  int next_id_ = 0;
  Rendezvous rendezvous_;
};

RendezvousServer::RendezvousServer(std::vector<Descriptor> listeners, RendezvousOptions options,
                                   std::string secret, std::function<void(const std::string&)> say)
    : loop_(std::make_unique<EventLoop>(std::move(listeners), std::move(options), std::move(secret),
                                        std::move(say))) {
  thread_ = std::thread([this] {
    const auto until = [&](const auto& done) {
      try {
        while (!done()) loop_->turn();
      } catch (const std::exception& error) {  // the members notice that nobody answers
        loop_.reset();
      }
    };
    until([&] { return closing_.load(); });
    if (!loop_) return;
    const double since = steady_time();
    // Closing a socket that holds something unread would lose what was sent last.
    until([&] { return loop_->is_empty() || steady_time() - since > kClosingSeconds; });
  });
}

RendezvousServer::~RendezvousServer() {
  closing_ = true;
  thread_.join();
}

}  // namespace convoy::launch
