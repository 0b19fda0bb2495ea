#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "convoy/launch/hosts/channel.h"
#include "convoy/launch/network.h"

namespace convoy::launch {

/// An agent's way into a rendezvous: connects to its host, again and again until one answers that
/// knows the secret. To be called often; never waits.
class RendezvousClient {
 public:
  /// `local_address`: from which to connect, "" for any.
  RendezvousClient(Endpoint endpoint, std::string run_id, std::string secret,
                   std::string local_address);

  /// The channel once it is open. Throws UsageError when the host refuses this agent and proves to
  /// be the host; who proves nothing is asked again.
  std::unique_ptr<HostChannel> step();

  int fd() const { return socket_ ? socket_->fd() : -1; }

  /// Reason why there is no channel yet.
  const std::string& trouble() const { return trouble_; }
  /// Whether somebody answered who did not prove to know the secret.
  bool met_a_stranger() const { return met_a_stranger_; }
  /// The address of this host towards the other; valid once step() gave the channel.
  const Address& own_address() const { return own_; }

 private:
  void connect();
  std::unique_ptr<HostChannel> answer(const std::string& line);
  void give_up(const std::string& why);

  Endpoint endpoint_;
  std::string run_id_, secret_, local_address_;
  std::optional<LineSocket> socket_;
  bool met_a_stranger_ = false;
  std::string trouble_ = "it does not answer";
  size_t next_address_ = 0;
  std::chrono::steady_clock::time_point retry_at_, since_;
  Address own_;
};

}  // namespace convoy::launch
