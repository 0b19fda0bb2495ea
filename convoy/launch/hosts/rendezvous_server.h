#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "convoy/launch/hosts/rendezvous.h"
#include "convoy/launch/spawn.h"

namespace convoy::launch {

/// Serves a rendezvous on listening sockets, in a thread of its own. Who does not prove to know
/// the secret within some seconds is turned away and told of once; nobody keeps the others waiting.
class RendezvousServer {
 public:
  RendezvousServer(std::vector<Descriptor> listeners, RendezvousOptions options, std::string secret,
                   std::function<void(const std::string&)> say);
  ~RendezvousServer();  ///< lets the last messages out for a moment
  RendezvousServer(const RendezvousServer&) = delete;
  RendezvousServer& operator=(const RendezvousServer&) = delete;

 private:
  class EventLoop;

  std::atomic<bool> closing_{false};
  std::unique_ptr<EventLoop> loop_;
  std::thread thread_;
};

}  // namespace convoy::launch
