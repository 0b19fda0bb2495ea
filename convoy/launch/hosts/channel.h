#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>

#include "convoy/base/json.h"
#include "convoy/launch/hosts/tls.h"
#include "convoy/launch/spawn.h"

namespace convoy::launch {

inline constexpr size_t kLongestGreeting = 4096;  ///< bytes of the first line each way

/// Lines of text over a socket and TLS, without ever waiting. What is sent before the other side
/// has proved to know the secret goes out after that.
class LineSocket {
 public:
  /// A line of more than `longest` bytes ends the connection.
  LineSocket(Descriptor socket, size_t longest, Tls tls);

  int fd() const { return socket_.get(); }
  const std::string& peer() const { return peer_; }  ///< address and port of the other end
  const std::string& peer_host() const { return peer_host_; }
  void allow(size_t longest) { longest_ = longest; }

  /// Reads and writes what can be. After the end of the connection next() still gives its last
  /// lines.
  void pump();
  std::optional<std::string> next();
  void send(std::string_view line);

  bool ended() const { return !why_ended_.empty(); }
  /// Whether it ended because the other side did not prove to know the secret.
  bool met_a_stranger() const { return !tls_.proven() && !tls_.why_ended().empty(); }
  /// "it closed the connection", "a line of more than 4096 bytes", ...; "" while it is open.
  const std::string& why_ended() const { return why_ended_; }
  /// Seconds since something came, or since the start.
  double silent_seconds() const;

 private:
  void flush();
  void end(std::string why);

  Descriptor socket_;
  size_t longest_;
  Tls tls_;
  std::string peer_, peer_host_;
  std::string in_, out_;
  std::string why_ended_;
  std::chrono::steady_clock::time_point heard_ = std::chrono::steady_clock::now();
};

/// Messages between an agent and the host of the rendezvous.
class HostChannel {
 public:
  explicit HostChannel(LineSocket socket);

  int fd() const { return socket_.fd(); }
  const std::string& peer() const { return socket_.peer(); }
  void send(const Json& message);
  /// The next message that came.
  std::optional<Json> next();
  /// Reads, writes, and tells that this side is alive as often as needed.
  void pump(double heartbeat_seconds);

  bool ended() const { return socket_.ended(); }
  const std::string& why_ended() const { return socket_.why_ended(); }
  double silent_seconds() const { return socket_.silent_seconds(); }

 private:
  LineSocket socket_;
  std::chrono::steady_clock::time_point told_ = std::chrono::steady_clock::now();
};

}  // namespace convoy::launch
