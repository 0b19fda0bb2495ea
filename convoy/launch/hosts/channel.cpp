#include "convoy/launch/hosts/channel.h"

#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "convoy/base/error.h"
#include "convoy/base/timing.h"
#include "convoy/launch/network.h"

namespace convoy::launch {
namespace {

using Clock = std::chrono::steady_clock;

// A report of a host with many ranks holds the tail of each rank's log.
constexpr size_t kLongestMessage = 64 << 20;

}  // namespace

LineSocket::LineSocket(Descriptor socket, size_t longest, Tls tls)
    : socket_(std::move(socket)), longest_(longest), tls_(std::move(tls)) {
  if (socket_.get() < 0) {
    end(std::strerror(errno));
    return;
  }
  set_nonblocking(socket_.get());
  const Address peer = Address::of_peer(socket_.get());
  peer_ = peer.to_text();
  peer_host_ = peer.host();
}

void LineSocket::flush() {
  out_ += tls_.take();
  while (!out_.empty() && !ended()) {
    const ssize_t sent = ::send(fd(), out_.data(), out_.size(), MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0 && (errno == EAGAIN || errno == ENOTCONN)) break;
    if (sent < 0) return end(std::strerror(errno));
    out_.erase(0, static_cast<size_t>(sent));
  }
}

void LineSocket::pump() {
  if (!ended()) flush();
  std::array<char, 65536> buffer;
  while (!ended()) {
    const ssize_t got = ::recv(fd(), buffer.data(), buffer.size(), 0);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && errno == EAGAIN) return;
    if (got < 0) return end(std::strerror(errno));
    if (got == 0) return end("it closed the connection");
    heard_ = Clock::now();
    tls_.receive({buffer.data(), static_cast<size_t>(got)}, in_);
    flush();
    if (!tls_.why_ended().empty()) return end(tls_.why_ended());
    const size_t newline = in_.find('\n');
    if (std::min(newline, in_.size()) > longest_) {
      in_.clear();
      return end(fmt::format("a line of more than {} bytes", longest_));
    }
    if (newline != std::string::npos) return;  // a flood is read line by line
  }
}

std::optional<std::string> LineSocket::next() {
  const size_t newline = in_.find('\n');
  if (newline == std::string::npos) return std::nullopt;
  std::string line = in_.substr(0, newline);
  in_.erase(0, newline + 1);
  return line;
}

void LineSocket::send(std::string_view line) {
  if (!ended()) tls_.send(fmt::format("{}\n", line));
}

double LineSocket::silent_seconds() const {
  return seconds_since(heard_);
}

void LineSocket::end(std::string why) {
  if (why_ended_.empty()) why_ended_ = std::move(why);
  socket_.reset();
}

HostChannel::HostChannel(LineSocket socket) : socket_(std::move(socket)) {
  socket_.allow(kLongestMessage);
}

void HostChannel::send(const Json& message) {
  socket_.send(json_line(message));
  told_ = Clock::now();
}

std::optional<Json> HostChannel::next() {
  while (const auto line = socket_.next()) {
    Json message = Json::parse(*line, nullptr, false);
    if (!message.is_object() || message.value("type", "") == "beat") continue;
    return message;
  }
  return std::nullopt;
}

void HostChannel::pump(double heartbeat_seconds) {
  if (seconds_since(told_) > heartbeat_seconds) send({{"type", "beat"}});
  socket_.pump();
}

}  // namespace convoy::launch
