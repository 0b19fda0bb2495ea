#pragma once

#include <memory>
#include <string>
#include <string_view>

using SSL = struct ssl_st;

namespace convoy::launch {

/// One end of a TLS 1.3 connection between two who know a secret, the pre-shared key: nobody else
/// gets through the handshake, can read what is said, or can change, repeat or add something. Takes
/// and gives the bytes of the wire; knows no socket and never waits.
class Tls {
 public:
  /// The host answers, the other one begins.
  Tls(std::string_view secret, bool is_host);
  ~Tls();
  Tls(Tls&&) noexcept;
  Tls& operator=(Tls&&) noexcept;

  /// Takes what came; what it holds for this side is added to `plain`.
  void receive(std::string_view wire, std::string& plain);
  /// Sends `plain`; keeps it until the other side has proved to know the secret.
  void send(std::string_view plain);
  /// Takes the bytes that are to go to the other side now.
  std::string take();

  /// Whether the other side has proved to know the secret.
  bool proven() const { return proven_; }
  /// "a wrong secret", "it does not speak this protocol", ...; "" as long as all is well.
  const std::string& why_ended() const { return why_ended_; }

 private:
  struct Free {
    void operator()(SSL* ssl) const;
  };

  void advance(std::string& plain);
  void end(int result);

  bool is_host_;
  std::unique_ptr<std::string> key_;  // where the library looks for it
  std::unique_ptr<SSL, Free> ssl_;
  bool proven_ = false;
  std::string unsent_;
  std::string why_ended_;
};

}  // namespace convoy::launch
