#include "convoy/launch/hosts/channel.h"

#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "convoy/base/error.h"
#include "convoy/base/timing.h"
#include "convoy/launch/hosts/network.h"
#include "convoy/launch/hosts/secret.h"

namespace convoy::launch {
namespace {

using Clock = std::chrono::steady_clock;

// A report of a host with many ranks holds the tail of each rank's log.
constexpr size_t kLongestMessage = 64 << 20;

}  // namespace

LineSocket::LineSocket(Descriptor socket, size_t longest)
    : socket_(std::move(socket)), longest_(longest) {
  if (socket_.get() < 0) {
    end(std::strerror(errno));
    return;
  }
  set_nonblocking(socket_.get());
  const Address peer = Address::of_peer(socket_.get());
  peer_ = peer.to_text();
  peer_host_ = peer.host();
}

void LineSocket::pump() {
  while (!out_.empty() && !ended()) {
    const ssize_t sent = ::send(fd(), out_.data(), out_.size(), MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0 && (errno == EAGAIN || errno == ENOTCONN)) break;
    if (sent < 0) return end(std::strerror(errno));
    out_.erase(0, static_cast<size_t>(sent));
  }
  std::array<char, 65536> buffer;
  while (!ended()) {
    const ssize_t got = ::recv(fd(), buffer.data(), buffer.size(), 0);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && errno == EAGAIN) return;
    if (got < 0) return end(std::strerror(errno));
    if (got == 0) return end("it closed the connection");
    heard_ = Clock::now();
    in_.append(buffer.data(), static_cast<size_t>(got));
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
  if (ended()) return;
  (out_ += line) += '\n';
}

double LineSocket::silent_seconds() const {
  return seconds_since(heard_);
}

void LineSocket::end(std::string why) {
  why_ended_ = std::move(why);
  socket_.reset();
}

Channel::Channel(LineSocket socket, std::string session_key, bool is_host)
    : socket_(std::move(socket)), key_(std::move(session_key)), is_host_(is_host) {
  socket_.allow(kLongestMessage);
}

std::string Channel::code(bool from_host, int64_t number, std::string_view text) const {
  return hmac(key_, fmt::format("{} {} {}", from_host ? "host" : "joiner", number, text));
}

void Channel::send(const Json& message) {
  const std::string text = json_line(message);
  socket_.send(code(is_host_, num_sent_++, text) + " " + text);
  told_ = Clock::now();
}

std::optional<Json> Channel::next() {
  while (forged_.empty()) {
    const auto line = socket_.next();
    if (!line) return std::nullopt;
    constexpr size_t kDigits = 64;
    const std::string text = line->size() > kDigits ? line->substr(kDigits + 1) : "";
    if (!same_proof(std::string_view(*line).substr(0, kDigits),
                    code(!is_host_, num_received_++, text))) {
      forged_ = "a message that the other side did not send";
      break;
    }
    Json message = Json::parse(text, nullptr, false);
    if (!message.is_object() || message.value("type", "") == "beat") continue;
    return message;
  }
  return std::nullopt;
}

void Channel::pump(double heartbeat_seconds) {
  if (seconds_since(told_) > heartbeat_seconds) send({{"type", "beat"}});
  socket_.pump();
}

}  // namespace convoy::launch
