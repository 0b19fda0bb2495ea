#include "convoy/parallel/transfers.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <sstream>

#include "convoy/base/error.h"
#include "convoy/comm/device.h"

namespace convoy::parallel {

namespace {

using schedule::Instruction;
using schedule::Op;

constexpr int64_t kHeadBytes = 1024;
/// Of a tensor's first byte in a body, so that it can be looked at as any type.
constexpr int64_t kAlign = 16;

/// What stands at the start of a head, before the description.
struct Sizes {
  int64_t text = 0;
  int64_t body = 0;
  int64_t received = 0;  // bundles, by the sender from the receiver
};
constexpr int64_t kTextBytes = kHeadBytes - static_cast<int64_t>(sizeof(Sizes));

int64_t rounded(int64_t bytes) {
  return (bytes + kAlign - 1) / kAlign * kAlign;
}

at::Tensor as_bytes(const at::Tensor& tensor) {
  return tensor.detach().contiguous().view({-1}).view(at::kByte);
}

at::Tensor text_tensor(const std::string& text, int64_t size) {
  auto out = at::zeros({size}, at::kByte);
  std::memcpy(out.data_ptr(), text.data(), text.size());
  return out;
}

Sizes sizes_of(const at::Tensor& head) {
  Sizes sizes;
  std::memcpy(&sizes, head.data_ptr(), sizeof sizes);
  return sizes;
}

/// The same on both sides.
std::string label_of(const Instruction& i) {
  const bool grad = i.op == Op::SendGrad || i.op == Op::ReceiveGrad;
  return fmt::format("{} block {}, micro-batch {}", grad ? "gradient of" : "output of", i.block,
                     i.micro_batch);
}

}  // namespace

Transfers::Transfers(DataGroups groups, at::Device device)
    : groups_(std::move(groups)),
      bytes_(at::TensorOptions(at::kByte).device(device)),
      sent_(static_cast<size_t>(groups_.pipeline.size())),
      received_(sent_.size()) {}

/// The memory of what is under way must stay.
Transfers::~Transfers() {
  for (auto& flight : flights_) {
    try {
      flight.wait();
    } catch (const std::exception&) {
      // Whoever waits for something of the group is told.
    }
  }
}

void Transfers::Flight::wait() {
  std::exchange(head, {}).wait();
  std::exchange(body, {}).wait();
}

/// A line for each tensor: how it travels, its type, number of dimensions, sizes, name.
Transfers::Packet Transfers::pack(const nn::Bundle& bundle, const nn::Bundle& known,
                                  int64_t peer) const {
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
    if (!there) parts.push_back(as_bytes(tensor));
  }
  const auto length = static_cast<int64_t>(text.size());
  // A description that is too long goes with the values.
  if (length > kTextBytes) {
    parts.insert(parts.begin(), comm::upload(text_tensor(text, length), bytes_.device()));
  }
  for (size_t p = 0; parts.size() > 1 && p < parts.size(); ++p) {
    const int64_t gap = rounded(parts[p].numel()) - parts[p].numel();
    if (gap > 0) parts[p] = at::constant_pad_nd(parts[p], {0, gap});
  }
  Packet packet;
  packet.body = parts.empty()       ? at::empty({0}, bytes_)
                : parts.size() == 1 ? parts.front()
                                    : at::cat(parts);
  const Sizes sizes{length, packet.body.numel(), received_.at(static_cast<size_t>(peer))};
  std::string head(sizeof sizes, '\0');
  std::memcpy(head.data(), &sizes, sizeof sizes);
  if (length <= kTextBytes) head += text;
  packet.head = text_tensor(head, kHeadBytes);
  return packet;
}

nn::Bundle Transfers::unpack(const Packet& packet, const nn::Bundle& known) const {
  const auto& head = packet.head;
  const auto sizes = sizes_of(head);
  int64_t at = 0;
  std::string text(static_cast<size_t>(sizes.text), '\0');
  if (sizes.text > kTextBytes) {
    const auto front = comm::download(packet.body.narrow(0, 0, sizes.text));
    std::memcpy(text.data(), front.data_ptr(), text.size());
    at = rounded(sizes.text);
  } else {
    std::memcpy(text.data(), static_cast<const char*>(head.data_ptr()) + sizeof sizes, text.size());
  }
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
    auto tensor = packet.body.narrow(0, at, bytes).view(dtype).view(shape);
    out[name] = how == 'g' ? tensor.detach().requires_grad_(true) : tensor;
    at += rounded(bytes);
  }
  return out;
}

void Transfers::settle() {
  for (auto& flight : flights_) flight.wait();
  flights_.clear();
}

/// Gives up what has arrived.
void Transfers::land(int64_t peer, int64_t num_arrived) {
  for (auto flight = flights_.begin(); flight != flights_.end();) {
    const bool arrived = flight->peer == peer && flight->number < num_arrived;
    if (!arrived && !flight->done()) {
      ++flight;
      continue;
    }
    flight->wait();  // and tell what went wrong
    flight = flights_.erase(flight);
  }
}

nn::Bundle Transfers::receive(const Instruction& i, const nn::Bundle& known) {
  const at::NoGradGuard no_grad;
  const auto label = label_of(i);
  const bool forth = i.peer < groups_.pipeline.rank();
  const auto& group = towards(forth);
  Packet in{at::empty({kHeadBytes}, at::kByte), {}};
  heads_towards(forth).start_receive(in.head, i.peer, "shapes of " + label).wait();
  const auto sizes = sizes_of(in.head);
  in.body = at::empty({sizes.body}, bytes_);
  if (in.body.numel() > 0) group.start_receive(in.body, i.peer, label).wait();
  ++received_.at(static_cast<size_t>(i.peer));
  land(i.peer, sizes.received);
  return unpack(in, known);
}

void Transfers::send(const Instruction& i, const nn::Bundle& bundle, const nn::Bundle& known) {
  const at::NoGradGuard no_grad;
  land(i.peer, 0);
  const auto label = label_of(i);
  const bool forth = i.peer > groups_.pipeline.rank();
  Flight flight{
      i.peer, sent_.at(static_cast<size_t>(i.peer))++, pack(bundle, known, i.peer), {}, {}};
  flight.head = heads_towards(forth).start_send(flight.packet.head, i.peer, "shapes of " + label);
  if (flight.packet.body.numel() > 0) {
    flight.body = towards(forth).start_send(flight.packet.body, i.peer, label);
  }
  flights_.push_back(std::move(flight));
}

}  // namespace convoy::parallel
