#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>

#include "convoy/base/json.h"
#include "convoy/launch/spawn.h"

namespace convoy::launch {

/// Lines of text over a socket, without ever waiting.
class LineSocket {
 public:
  /// A line of more than `longest` bytes ends the connection.
  LineSocket(Descriptor socket, size_t longest);

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
  /// "it closed the connection", "a line of more than 4096 bytes", ...; "" while it is open.
  const std::string& why_ended() const { return why_ended_; }
  /// Since something came, or since the start.
  double silent_seconds() const;

 private:
  void end(std::string why);

  Descriptor socket_;
  size_t longest_;
  std::string peer_, peer_host_;
  std::string in_, out_;
  std::string why_ended_;
  std::chrono::steady_clock::time_point heard_ = std::chrono::steady_clock::now();
};

/// Messages between an agent and the host of the rendezvous after each has proved that it knows the
/// secret. Every line carries a code of its text, its number and its direction, so that nobody on
/// the way can change, repeat or add one; it is not encrypted.
class Channel {
 public:
  Channel(LineSocket socket, std::string session_key, bool is_host);

  int fd() const { return socket_.fd(); }
  const std::string& peer() const { return socket_.peer(); }
  void send(const Json& message);
  /// The next message that came.
  std::optional<Json> next();
  /// Reads, writes, and tells that this side is alive as often as needed.
  void pump(double heartbeat_seconds);

  bool ended() const { return !why_ended().empty(); }
  const std::string& why_ended() const { return forged_.empty() ? socket_.why_ended() : forged_; }
  double silent_seconds() const { return socket_.silent_seconds(); }

 private:
  std::string code(bool from_host, int64_t number, std::string_view text) const;

  LineSocket socket_;
  std::string key_;
  bool is_host_;
  int64_t num_sent_ = 0, num_received_ = 0;
  std::string forged_;
  std::chrono::steady_clock::time_point told_ = std::chrono::steady_clock::now();
};

}  // namespace convoy::launch
