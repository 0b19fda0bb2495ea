#pragma once

#include <deque>
#include <list>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "convoy/comm/groups.h"
#include "convoy/nn/block.h"
#include "convoy/parallel/program/program.h"

namespace convoy::parallel {

/// Carries bundles of tensors, and their gradients, between the stages of a pipeline.
///
/// A bundle is two messages: a head that announces it, then all values. Names, types and shapes go
/// between them where they are new, else by a number that both sides remember. Tensors that the
/// receiver has, because they are part of the batch, travel by name only. Each head also tells how
/// many bundles of its receiver have arrived, which need not be kept any longer: not all engines
/// say so.
///
/// Where an engine sends only when it is asked, a rank asks for the next bundle of another stage as
/// soon as it has one, before its size is known: for as many values as the last one had. A larger
/// bundle has the rest in a message of its own.
class P2PCommunication {
 public:
  P2PCommunication(comm::Groups groups, at::Device device);
  ~P2PCommunication();
  P2PCommunication(const P2PCommunication&) = delete;
  P2PCommunication& operator=(const P2PCommunication&) = delete;

  /// Whether a rank asks for bundles before it needs them: tell what to expect().
  bool asks_early() const { return groups_.pipeline.sends_when_asked(); }
  /// Sets the receives until the next call, in this order.
  void expect(const std::vector<Instruction>& receives);
  /// Starts sending a bundle; the receiver has `known`, too.
  void send(const Instruction& instruction, const nn::Bundle& bundle, const nn::Bundle& known);
  /// Tells, in the place of a bundle, that this rank has given up the step.
  void tell_given_up(const Instruction& instruction);
  /// Waits for a bundle; tensors that carry a gradient are leaves. This rank has `known`. Returns
  /// nothing if the sender has given up the step.
  std::optional<nn::Bundle> receive(const Instruction& instruction, const nn::Bundle& known);
  /// Waits until all sent bundles have arrived.
  void settle();
  /// Bundles that were sent and, as far as this rank knows, have not arrived.
  size_t num_under_way() const { return in_flight_.size(); }

 private:
  struct Packet {
    at::Tensor head;  // bytes on the host, so that nobody waits for a GPU to know what comes
    at::Tensor text;  // names, types and shapes, where they are new; beside the head
    at::Tensor body;  // bytes
  };
  struct InFlight {
    int64_t peer = 0;
    int64_t number = 0;  // among those sent to it
    Packet packet;
    comm::Group::Handle head, text, body, rest;
    void wait();
    /// Gives up the values as soon as they have left: heads may go another way, and later.
    void free_body();
    /// Whether the transfers have ended; Gloo never tells.
    bool done() const { return head.done() && text.done() && values_done(); }
    bool values_done() const { return body.done() && rest.done(); }
  };
  /// A bundle that was asked for: its head, and as much of its values as there is room for.
  struct Asked {
    at::Tensor head, values;
    comm::Group::Handle head_comes, values_come;
  };

  Asked ask(const Instruction& instruction);
  at::Tensor receive_body(const Instruction& instruction, Asked& asked, int64_t bytes);
  void ask_for_next(int64_t peer);
  void complete(int64_t peer, int64_t num_arrived);
  Packet pack(const nn::Bundle& bundle, const nn::Bundle& known, int64_t peer);
  void post(const Instruction& instruction, Packet packet);
  nn::Bundle unpack(const at::Tensor& body, const std::string& text, const nn::Bundle& known) const;
  /// Group of a direction. Over NCCL all messages between two ranks are one queue, so each
  /// direction has its own.
  const comm::Group& towards(bool later_stage) const {
    return later_stage ? groups_.pipeline : groups_.pipeline_back;
  }
  const comm::Group& from(int64_t peer) const { return towards(peer < groups_.pipeline.rank()); }
  const comm::Group& heads_from(int64_t peer) const {
    return heads_towards(peer < groups_.pipeline.rank());
  }
  const comm::Group& heads_towards(bool later_stage) const {
    return groups_.pipeline_heads.size() > 1 ? groups_.pipeline_heads : towards(later_stage);
  }

  comm::Groups groups_;
  at::TensorOptions bytes_;
  std::list<InFlight> in_flight_;
  std::vector<int64_t> sent_, received_;              // [stage] bundles so far
  std::vector<int64_t> last_sent_, last_received_;    // [stage] bytes of the last bundle's values
  std::vector<std::deque<Instruction>> expected_;     // [stage] not asked for yet
  std::vector<std::optional<Asked>> asked_;           // [stage] what comes next
  std::vector<std::map<std::string, int64_t>> told_;  // [stage] descriptions it knows, by number
  std::vector<std::vector<std::string>> heard_;       // [stage] those that it told
};

}  // namespace convoy::parallel
