#pragma once

#include <map>
#include <span>
#include <utility>

#include "convoy/comm/group.h"
#include "convoy/nn/block.h"
#include "convoy/schedule/program.h"

namespace convoy::parallel {

/// Carries bundles of tensors, and their gradients, between the stages of a pipeline.
///
/// A bundle is two messages: names, types and shapes, then all values. Tensors that the receiver
/// has, because they are part of the batch, travel by name only.
class Transfers {
 public:
  Transfers(comm::Group pipeline, at::Device device);
  ~Transfers();
  Transfers(const Transfers&) = delete;
  Transfers& operator=(const Transfers&) = delete;

  struct Cargo {
    nn::Bundle out;          ///< what is sent
    nn::Bundle known_there;  ///< what the receiver of that has, too
    nn::Bundle known_here;   ///< what this rank has of what it receives
  };

  /// Carries out a send, a receive, or both at once (schedule::exchange_length). Returns what was
  /// received; tensors that carry a gradient are leaves. Of each kind one send to a peer goes on
  /// afterwards.
  nn::Bundle carry(std::span<const schedule::Instruction> exchange, const Cargo& cargo);

 private:
  struct Packet {
    at::Tensor head, body;  // bytes
  };
  struct Flight {
    Packet packet;
    comm::Group::Handle head, body;
    void wait();
  };

  Packet pack(const nn::Bundle& bundle, const nn::Bundle& known) const;
  nn::Bundle unpack(const Packet& packet, const nn::Bundle& known) const;
  Packet both(Packet out, int peer, const std::string& label) const;
  Packet receive(int peer, const std::string& label) const;
  at::Tensor room_for_body(const at::Tensor& head) const;

  comm::Group pipeline_;
  at::TensorOptions bytes_;
  std::map<std::pair<int, schedule::Op>, Flight> flights_;
};

}  // namespace convoy::parallel
