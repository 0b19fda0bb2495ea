#pragma once

#include <list>
#include <string>

#include "convoy/nn/block.h"
#include "convoy/parallel/data_groups.h"
#include "convoy/schedule/program.h"

namespace convoy::parallel {

/// Carries bundles of tensors, and their gradients, between the stages of a pipeline.
///
/// A bundle is two messages: names, types and shapes, then all values. Tensors that the receiver
/// has, because they are part of the batch, travel by name only.
class Transfers {
 public:
  Transfers(DataGroups groups, at::Device device);
  ~Transfers();
  Transfers(const Transfers&) = delete;
  Transfers& operator=(const Transfers&) = delete;

  /// Starts sending a bundle, of which the receiver has `known`, too.
  void send(const schedule::Instruction& instruction, const nn::Bundle& bundle,
            const nn::Bundle& known);
  /// Waits for what is received; tensors that carry a gradient are leaves. This rank has `known`.
  nn::Bundle receive(const schedule::Instruction& instruction, const nn::Bundle& known);
  /// Waits until all that was sent has arrived.
  void settle();

 private:
  struct Packet {
    at::Tensor head, body;  // bytes
  };
  struct Flight {
    schedule::Instruction sent;
    Packet packet;
    comm::Group::Handle head, body;
    void wait();
    bool done() const { return head.done() && body.done(); }
  };

  void land(const schedule::Instruction& received);
  Packet pack(const nn::Bundle& bundle, const nn::Bundle& known) const;
  nn::Bundle unpack(const Packet& packet, const nn::Bundle& known) const;
  /// Over NCCL all that goes between two ranks is one queue: each direction has a group of its own.
  const comm::Group& towards(bool later_stage) const {
    return later_stage ? groups_.pipeline : groups_.pipeline_back;
  }

  DataGroups groups_;
  at::TensorOptions bytes_;
  std::list<Flight> flights_;
};

}  // namespace convoy::parallel
