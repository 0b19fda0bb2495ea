#include "convoy/train/logging/metrics_server.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "convoy/base/error.h"
#include "convoy/launch/network.h"
#include "convoy/launch/spawn.h"
#include "convoy/train/logging/metrics_text.h"

namespace convoy::train {

namespace {

using launch::Descriptor;
using Clock = std::chrono::steady_clock;

/// Time that one client has, as the next one waits for it, and size of its request.
constexpr std::chrono::seconds kPatience{2};
constexpr size_t kMostAsked = 8192;

/// Waits until `fd` is ready for `events`, or `other` has something to read, or `end` has come.
/// Returns whether `fd` is ready.
bool wait_for(int fd, short events, int other, std::optional<Clock::time_point> end) {
  while (true) {
    int left = -1;
    if (end) {
      const auto time = std::chrono::ceil<std::chrono::milliseconds>(*end - Clock::now());
      if (time.count() <= 0) return false;
      left = static_cast<int>(time.count());
    }
    pollfd wanted[] = {{fd, events, 0}, {other, POLLIN, 0}};
    const int ready = ::poll(wanted, 2, left);
    if (ready < 0 && errno == EINTR) continue;
    if (ready <= 0 || wanted[1].revents != 0) return false;
    return true;
  }
}

Descriptor listen_at_port(int64_t port) {
  Descriptor socket;
  for (const char* all : {"::", "0.0.0.0"}) {  // the first takes both versions of the protocol
    for (const auto& address : launch::Address::resolve(all, static_cast<int>(port))) {
      socket = launch::listen_on(address);
      if (socket.get() >= 0) return socket;
      if (errno == EADDRINUSE) {
        fail<UsageError>("train",
                         "output.metrics_port = {} is taken: another program of this host listens "
                         "there; try another port",
                         port);
      }
    }
  }
  fail<UsageError>("train", "output.metrics_port = {} cannot be listened at: {}; try another port",
                   port, std::strerror(errno));
}

std::string answer(const std::string& request, const std::string& metrics) {
  const auto respond = [](const char* status, const char* type, const std::string& body) {
    return fmt::format(
        "HTTP/1.1 {}\r\nContent-Type: {}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{}",
        status, type, body.size(), body);
  };
  constexpr const char* kText = "text/plain; charset=utf-8";
  const auto line = request.substr(0, request.find("\r\n"));
  if (!line.starts_with("GET ")) return respond("405 Method Not Allowed", kText, "GET only\n");
  const auto path = line.substr(4, line.find_first_of(" ?", 4) - 4);
  if (path != "/metrics") return respond("404 Not Found", kText, "there is /metrics\n");
  return respond("200 OK", "text/plain; version=0.0.4; charset=utf-8", metrics);
}

/// Thread that answers one client after the other with the newest text.
class Server {
 public:
  explicit Server(int64_t port)
      : socket_(listen_at_port(port)), end_(launch::make_pipe()), thread_([this] { serve(); }) {}
  ~Server() {
    end_.write.reset();  // the other end becomes readable
    thread_.join();
  }
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  void set(const std::string& text) {
    const std::lock_guard lock(mutex_);
    text_ = text;
  }

 private:
  void serve() {
    while (wait_for(socket_.get(), POLLIN, end_.read.get(), std::nullopt)) {
      const Descriptor client(
          ::accept4(socket_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
      if (client.get() >= 0) serve(client.get());
    }
  }

  void serve(int client) {
    const auto end = Clock::now() + kPatience;
    std::string request;
    while (request.find("\r\n\r\n") == std::string::npos) {
      char part[1024];
      if (!wait_for(client, POLLIN, end_.read.get(), end)) return;
      const auto got = ::recv(client, part, sizeof part, 0);
      if (got <= 0 || request.size() > kMostAsked) return;
      request.append(part, static_cast<size_t>(got));
    }
    std::string out;
    {
      const std::lock_guard lock(mutex_);
      out = answer(request, text_);
    }
    for (size_t sent = 0; sent < out.size();) {
      if (!wait_for(client, POLLOUT, end_.read.get(), end)) return;
      const auto took = ::send(client, out.data() + sent, out.size() - sent, MSG_NOSIGNAL);
      if (took <= 0) return;
      sent += static_cast<size_t>(took);
    }
  }

  Descriptor socket_;
  launch::PipeEnds end_;
  std::mutex mutex_;
  std::string text_;
  std::thread thread_;  // the last member: it uses the others
};

}  // namespace

std::shared_ptr<Callback> make_metrics_server(int64_t port) {
  return make_metrics_text(
      [server = std::make_shared<Server>(port)](const std::string& text) { server->set(text); });
}

}  // namespace convoy::train
