#include "convoy/parallel/pipeline/torch/p2p_communication.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <sstream>
#include <utility>

#include "convoy/base/error.h"
#include "convoy/comm/pinned.h"

namespace convoy::parallel {

namespace {

/// Alignment of a tensor's first byte in a body, so that it can be viewed as any type.
constexpr int64_t kAlign = 16;

/// Largest number of descriptions that each side of a pair remembers; batches of changing length
/// have many.
constexpr size_t kMostShapes = 4096;

/// Content of a head message: sizes of the text and body that follow.
struct Sizes {
  int64_t shapes = 0;  // number of the description, of those from this sender
  int64_t text = 0;    // bytes of the description, which follows; 0: it is known
  int64_t body = 0;
  int64_t received = 0;  // bundles, by the sender from the receiver
};
constexpr int64_t kGivenUp = -1;  // in the place of a description's number
constexpr auto kHeadBytes = static_cast<int64_t>(sizeof(Sizes));

int64_t rounded(int64_t bytes) {
  return (bytes + kAlign - 1) / kAlign * kAlign;
}

/// View of `size` bytes from `from` on.
at::Tensor bytes_at(const void* from, size_t size) {
  auto out = at::empty({static_cast<int64_t>(size)}, at::kByte);
  std::memcpy(out.data_ptr(), from, size);
  return out;
}

Sizes sizes_of(const at::Tensor& head) {
  Sizes sizes;
  std::memcpy(&sizes, head.data_ptr(), sizeof sizes);
  return sizes;
}

/// Label of a message, equal on both sides.
std::string label_of(const Instruction& i) {
  const bool grad = i.op == Op::SendGrad || i.op == Op::ReceiveGrad;
  return fmt::format("{} block {}, micro-batch {}", grad ? "gradient of" : "output of", i.block,
                     i.micro_batch);
}

}  // namespace

P2PCommunication::P2PCommunication(comm::Groups groups, at::Device device)
    : groups_(std::move(groups)),
      bytes_(at::TensorOptions(at::kByte).device(device)),
      sent_(static_cast<size_t>(groups_.pipeline.size())),
      received_(sent_.size()),
      last_sent_(sent_.size()),
      last_received_(sent_.size()),
      expected_(sent_.size()),
      asked_(sent_.size()),
      told_(sent_.size()),
      heard_(sent_.size()) {}

/// Waits for messages in flight, whose memory must stay until then.
P2PCommunication::~P2PCommunication() {
  for (auto& message : in_flight_) {
    try {
      message.wait();
    } catch (const std::exception&) {
      // The next wait for this group reports the error.
    }
  }
}

void P2PCommunication::InFlight::wait() {
  std::exchange(head, {}).wait();
  std::exchange(text, {}).wait();
  std::exchange(body, {}).wait();
  std::exchange(rest, {}).wait();
}

void P2PCommunication::InFlight::free_body() {
  if (!packet.body.defined() || !values_done()) return;
  std::exchange(body, {}).wait();
  std::exchange(rest, {}).wait();
  packet.body = at::Tensor();
}

/// Packs a bundle. The text has a line for each tensor: how it is sent, dtype, number of
/// dimensions, sizes, name.
P2PCommunication::Packet P2PCommunication::pack(const nn::Bundle& bundle, const nn::Bundle& known,
                                                int64_t peer) {
  std::string text;
  std::vector<at::Tensor> parts;
  for (const auto& [name, tensor] : bundle) {
    const auto own = known.find(name);
    const bool there = own != known.end() && own->second.is_same(tensor);
    text += fmt::format("{} {} {}",
                        there                    ? 'k'
                        : tensor.requires_grad() ? 'g'
                                                 : 'v',
                        static_cast<int>(tensor.scalar_type()), there ? 0 : tensor.dim());
    for (int64_t d = 0; !there && d < tensor.dim(); ++d) text += fmt::format(" {}", tensor.size(d));
    text += " " + name + "\n";
    if (!there) parts.push_back(comm::bytes_of(tensor.contiguous()));
  }
  for (size_t p = 0; parts.size() > 1 && p < parts.size(); ++p) {
    const int64_t gap = rounded(parts[p].numel()) - parts[p].numel();
    if (gap > 0) parts[p] = at::constant_pad_nd(parts[p], {0, gap});
  }
  Packet packet;
  packet.body = parts.empty()       ? at::empty({0}, bytes_)
                : parts.size() == 1 ? parts.front()
                                    : at::cat(parts);
  if (text.empty()) text.push_back('\n');  // there is always one to remember
  auto& told = told_.at(static_cast<size_t>(peer));
  if (told.size() == kMostShapes) told.clear();
  const auto [shapes, is_new] = told.emplace(text, static_cast<int64_t>(told.size()));
  if (is_new) packet.text = bytes_at(text.data(), text.size());
  const Sizes sizes{.shapes = shapes->second,
                    .text = is_new ? static_cast<int64_t>(text.size()) : 0,
                    .body = packet.body.numel(),
                    .received = received_.at(static_cast<size_t>(peer))};
  packet.head = bytes_at(&sizes, sizeof sizes);
  return packet;
}

nn::Bundle P2PCommunication::unpack(const at::Tensor& body, const std::string& text,
                                    const nn::Bundle& known) const {
  int64_t at = 0;
  nn::Bundle out;
  std::istringstream lines(text);
  char how = 0;
  int type = 0, dims = 0;
  while (lines >> how >> type >> dims) {
    std::vector<int64_t> shape(static_cast<size_t>(dims));
    for (auto& size : shape) lines >> size;
    std::string name;
    std::getline(lines.ignore(), name);
    if (how == 'k') {
      out[name] = known.at(name);
      continue;
    }
    const auto dtype = static_cast<at::ScalarType>(type);
    int64_t bytes = static_cast<int64_t>(at::elementSize(dtype));
    for (const int64_t size : shape) bytes *= size;
    auto tensor = body.narrow(0, at, bytes).view(dtype).view(shape);
    out[name] = how == 'g' ? tensor.detach().requires_grad_(true) : tensor;
    at += rounded(bytes);
  }
  return out;
}

void P2PCommunication::settle() {
  for (auto& message : in_flight_) message.wait();
  in_flight_.clear();
}

/// Frees the messages that have arrived.
void P2PCommunication::complete(int64_t peer, int64_t num_arrived) {
  for (auto message = in_flight_.begin(); message != in_flight_.end();) {
    const bool arrived = message->peer == peer && message->number < num_arrived;
    message->free_body();
    if (!arrived && !message->done()) {
      ++message;
      continue;
    }
    message->wait();  // and tell what went wrong
    message = in_flight_.erase(message);
  }
}

void P2PCommunication::expect(const std::vector<Instruction>& receives) {
  for (auto& of_peer : expected_) of_peer.clear();
  for (const auto& i : receives) expected_.at(static_cast<size_t>(i.peer)).push_back(i);
  for (size_t peer = 0; peer < asked_.size(); ++peer) ask_for_next(static_cast<int64_t>(peer));
}

P2PCommunication::Asked P2PCommunication::ask(const Instruction& i) {
  const auto label = label_of(i);
  Asked out;
  out.head = at::empty({kHeadBytes}, at::kByte);
  out.head_comes = heads_from(i.peer).start_receive(out.head, i.peer, "shapes of " + label);
  const int64_t bytes = last_received_.at(static_cast<size_t>(i.peer));
  if (bytes > 0 && asks_early()) {
    out.values = at::empty({bytes}, bytes_);
    out.values_come = from(i.peer).start_receive(out.values, i.peer, label);
  }
  return out;
}

void P2PCommunication::ask_for_next(int64_t peer) {
  auto& expected = expected_.at(static_cast<size_t>(peer));
  if (expected.empty()) return;
  asked_.at(static_cast<size_t>(peer)) = ask(expected.front());
  expected.pop_front();
}

/// Returns the values that were asked for ahead, resized to the bundle, with those that did not
/// fit.
at::Tensor P2PCommunication::receive_body(const Instruction& i, Asked& asked, int64_t bytes) {
  const int64_t room = asked.values.defined() ? asked.values.numel() : 0;
  asked.values_come.wait();
  if (room == bytes && room > 0) return asked.values;
  auto out = at::empty({bytes}, bytes_);
  const int64_t there = std::min(room, bytes);
  if (there > 0) out.narrow(0, 0, there).copy_(asked.values.narrow(0, 0, there));
  if (bytes > there) {
    const auto rest = out.narrow(0, there, bytes - there);
    from(i.peer).start_receive(rest, i.peer, label_of(i)).wait();
  }
  return out;
}

std::optional<nn::Bundle> P2PCommunication::receive(const Instruction& i, const nn::Bundle& known) {
  const at::NoGradGuard no_grad;
  const auto peer = static_cast<size_t>(i.peer);
  auto& next = asked_.at(peer);
  auto asked = next ? *std::exchange(next, std::nullopt) : ask(i);
  asked.head_comes.wait();
  const auto sizes = sizes_of(asked.head);
  auto& heard = heard_.at(peer);
  if (sizes.text > 0) {
    heard.resize(static_cast<size_t>(sizes.shapes));  // its sender may have begun anew
    const auto text = at::empty({sizes.text}, at::kByte);
    heads_from(i.peer).start_receive(text, i.peer, "new shapes of " + label_of(i)).wait();
    heard.emplace_back(static_cast<const char*>(text.const_data_ptr()), text.nbytes());
  }
  const auto body = receive_body(i, asked, sizes.body);
  last_received_.at(peer) = sizes.body;
  ++received_.at(peer);
  ask_for_next(i.peer);
  complete(i.peer, sizes.received);
  if (sizes.shapes == kGivenUp) return std::nullopt;
  return unpack(body, heard.at(static_cast<size_t>(sizes.shapes)), known);
}

void P2PCommunication::send(const Instruction& i, const nn::Bundle& bundle,
                            const nn::Bundle& known) {
  const at::NoGradGuard no_grad;
  post(i, pack(bundle, known, i.peer));
}

void P2PCommunication::tell_given_up(const Instruction& i) {
  const Sizes sizes{.shapes = kGivenUp, .received = received_.at(static_cast<size_t>(i.peer))};
  post(i, {.head = bytes_at(&sizes, sizeof sizes), .body = at::empty({0}, bytes_)});
}

void P2PCommunication::post(const Instruction& i, Packet packet) {
  complete(i.peer, 0);
  const auto label = label_of(i);
  const bool forth = i.peer > groups_.pipeline.rank();
  const auto peer = static_cast<size_t>(i.peer);
  const auto& group = towards(forth);
  InFlight message{.peer = i.peer, .number = sent_.at(peer)++, .packet = std::move(packet)};
  const auto& [head, text, body] = message.packet;
  message.head = heads_towards(forth).start_send(head, i.peer, "shapes of " + label);
  // Bytes that the receiver has asked for already; one byte stands for no values.
  const int64_t room = asks_early() ? last_sent_.at(peer) : 0;
  const int64_t there = std::min(room, body.numel());
  if (room > 0) {
    const auto first = there > 0 ? body.narrow(0, 0, there) : at::zeros({1}, bytes_);
    message.body = group.start_send(first, i.peer, label);
  }
  if (text.defined()) {
    message.text = heads_towards(forth).start_send(text, i.peer, "new shapes of " + label);
  }
  if (body.numel() > there) {
    message.rest = group.start_send(body.narrow(0, there, body.numel() - there), i.peer, label);
  }
  last_sent_.at(peer) = body.numel();
  in_flight_.push_back(std::move(message));
}

}  // namespace convoy::parallel
