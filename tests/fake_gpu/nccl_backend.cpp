// What stands in for the plugin with NCCL: the calls of c10d::ProcessGroupNCCL that convoy uses.
#include <ATen/ATen.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>

#include <map>

#include "convoy/comm/nccl/plugin.h"
#include "tests/fake_gpu/nccl_channel.h"
#include "tests/fake_gpu/notes.h"
#include "tests/fake_gpu/options.h"
#include "tests/fake_gpu/report.h"
#include "tests/fake_gpu/sites.h"

namespace convoy::fake_gpu {

namespace {

using Gloo = c10d::ProcessGroupGloo;
using WorkPtr = c10::intrusive_ptr<c10d::Work>;

at::Tensor bytes_of(const at::Tensor& host) {
  return host.contiguous().view({-1}).view(at::kByte);
}

at::Tensor from_bytes(const at::Tensor& bytes, at::ScalarType type) {
  return bytes.view(type);
}

/// In the order of ranks, 16-bit numbers in 32: the same bits on every rank and for every cut.
at::Tensor reduce_parts(const Tensors& parts, const c10d::ReduceOp& op) {
  const auto type = parts[0].scalar_type();
  const auto wide = at::isReducedFloatingType(type) ? at::kFloat : type;
  auto out = parts[0].to(wide, /*non_blocking=*/false, /*copy=*/true);
  const size_t missing = mutated("nccl_forgets_a_rank") ? 1 : 0;
  for (size_t p = 1; p + missing < parts.size(); ++p) {
    const auto part = parts[p].to(wide);
    if (op == c10d::ReduceOp::MAX) {
      at::maximum_out(out, out, part);
    } else {
      TORCH_CHECK(op == c10d::ReduceOp::SUM, "fake_gpu: NCCL sums and finds the most only");
      out.add_(part);
    }
  }
  return out.to(type);
}

Tensors gather_parts(Gloo& gloo, const at::Tensor& own) {
  std::vector<Tensors> outputs(1);
  Tensors inputs{bytes_of(own)};
  for (int r = 0; r < gloo.getSize(); ++r) outputs[0].push_back(at::empty_like(inputs[0]));
  gloo.allgather(outputs, inputs)->wait();
  for (auto& part : outputs[0]) part = from_bytes(part, own.scalar_type());
  return outputs[0];
}

/// Parts of these numbers of elements go to the ranks, others come.
at::Tensor all_to_all(Gloo& gloo, const at::Tensor& in, const std::vector<int64_t>& to,
                      const std::vector<int64_t>& from) {
  const auto width = static_cast<int64_t>(in.element_size());
  std::vector<int64_t> sent, received;
  int64_t total = 0;
  for (const int64_t count : to) sent.push_back(count * width);
  for (const int64_t count : from) {
    received.push_back(count * width);
    total += count * width;
  }
  auto bytes = bytes_of(in), out = at::empty({total}, at::kByte);
  gloo.alltoall_base(out, bytes, received, sent)->wait();
  return from_bytes(out, in.scalar_type());
}

class NcclBackend : public c10d::Backend {
 public:
  NcclBackend(c10::intrusive_ptr<c10d::Store> store, int rank, int size,
              std::chrono::milliseconds timeout)
      : Backend(rank, size), store_(std::move(store)), timeout_(timeout) {}

  const std::string getBackendName() const override { return "nccl"; }

  WorkPtr allreduce(Tensors& tensors, const c10d::AllreduceOptions& options) override {
    const auto shape = tensors.at(0).sizes().vec();
    return all(tensors[0])
        .start("all_reduce", tensors, tensors,
               [op = options.reduceOp, shape](Gloo& gloo, const Tensors& in) {
                 return Tensors{reduce_parts(gather_parts(gloo, in[0]), op).view(shape)};
               });
  }

  WorkPtr broadcast(Tensors& tensors, const c10d::BroadcastOptions& options) override {
    const auto root = options.rootRank;
    return all(tensors.at(0))
        .start("broadcast", tensors, tensors, [root](Gloo& gloo, const Tensors& in) {
          Tensors bytes{bytes_of(in[0])};
          c10d::BroadcastOptions same;
          same.rootRank = root;
          gloo.broadcast(bytes, same)->wait();
          return Tensors{from_bytes(bytes[0], in[0].scalar_type()).view(in[0].sizes())};
        });
  }

  WorkPtr _allgather_base(at::Tensor& out, at::Tensor& in, const c10d::AllgatherOptions&) override {
    const auto shape = out.sizes().vec();
    return all(in).start("all_gather", {in}, {out}, [shape](Gloo& gloo, const Tensors& here) {
      return Tensors{at::cat(gather_parts(gloo, here[0])).view(shape)};
    });
  }

  WorkPtr _reduce_scatter_base(at::Tensor& out, at::Tensor& in,
                               const c10d::ReduceScatterOptions& options) override {
    const auto shape = out.sizes().vec();
    const std::vector<int64_t> counts(static_cast<size_t>(getSize()), out.numel());
    return all(in).start("reduce_scatter", {in}, {out},
                         [op = options.reduceOp, shape, counts](Gloo& gloo, const Tensors& here) {
                           const auto parts = all_to_all(gloo, here[0], counts, counts);
                           return Tensors{reduce_parts(parts.split(counts[0]), op).view(shape)};
                         });
  }

  WorkPtr alltoall_base(at::Tensor& out, at::Tensor& in, std::vector<int64_t>& received,
                        std::vector<int64_t>& sent, const c10d::AllToAllOptions&) override {
    return all(in).start(
        "all_to_all", {in}, {out},
        [to = sent, from = received](Gloo& gloo, const Tensors& here) {
          return Tensors{all_to_all(gloo, here[0], to, from)};
        },
        false);
  }

  WorkPtr send(Tensors& tensors, int to, int) override {
    check_connected("sends to rank " + std::to_string(to));
    if (coalesces_) return later({tensors.at(0), to, true});
    auto [channel, peer] = pair(tensors.at(0), to);
    return channel->start(
        "send", tensors, {},
        [peer = peer](Gloo& gloo, const Tensors& in) {
          Tensors bytes{bytes_of(in[0])}, arrived{at::zeros({1}, at::kByte)};
          gloo.send(bytes, peer, 0)->wait();
          gloo.recv(arrived, peer, 1)->wait();  // a send ends with its receive
          return Tensors{};
        },
        false);
  }

  WorkPtr recv(Tensors& tensors, int from, int) override {
    check_connected("receives from rank " + std::to_string(from));
    if (coalesces_) return later({tensors.at(0), from, false});
    auto [channel, peer] = pair(tensors.at(0), from);
    const auto like = on_cpu(tensors[0]);
    return channel->start(
        "receive", {}, tensors,
        [peer = peer, like](Gloo& gloo, const Tensors&) {
          auto out = at::empty(like.sizes, like.type);
          Tensors bytes{bytes_of(out)}, arrived{at::zeros({1}, at::kByte)};
          gloo.recv(bytes, peer, 0)->wait();
          gloo.send(arrived, peer, 1)->wait();
          return Tensors{from_bytes(bytes[0], like.type).view(like.sizes)};
        },
        false);
  }

  void startCoalescing() override { coalesces_ = true; }

  /// Torch's batched messages go by the communicator of the whole group.
  WorkPtr endCoalescing() override {
    coalesces_ = false;
    const auto messages = std::exchange(messages_, {});
    TORCH_CHECK(!messages.empty(), "fake_gpu: nothing was coalesced");
    Tensors inputs, outputs;
    std::vector<int> to, from;
    std::vector<Like> likes;
    for (const auto& message : messages) {
      (message.sends ? inputs : outputs).push_back(message.tensor);
      (message.sends ? to : from).push_back(message.peer);
      if (!message.sends) likes.push_back(on_cpu(message.tensor));
    }
    return all(messages[0].tensor)
        .start(
            "send_receive", inputs, outputs,
            [=](Gloo& gloo, const Tensors& in) {
              std::vector<WorkPtr> works;
              std::vector<Tensors> bytes, received;
              for (size_t i = 0; i < in.size(); ++i) {
                bytes.push_back({bytes_of(in[i])});
                works.push_back(gloo.send(bytes.back(), to[i], 2));
              }
              for (size_t i = 0; i < likes.size(); ++i) {
                received.push_back({bytes_of(at::empty(likes[i].sizes, likes[i].type))});
                works.push_back(gloo.recv(received.back(), from[i], 2));
              }
              for (const auto& work : works) work->wait();
              Tensors out;
              for (size_t i = 0; i < likes.size(); ++i) {
                out.push_back(from_bytes(received[i][0], likes[i].type).view(likes[i].sizes));
              }
              return out;
            },
            false);
  }

  void abort() override {
    for (auto& [key, channel] : channels_) channel->abort();
  }

 private:
  static constexpr const char* kAll = "all";
  struct Like {
    std::vector<int64_t> sizes;
    at::ScalarType type;
  };
  struct Message {
    at::Tensor tensor;
    int peer;
    bool sends;
  };

  static Like on_cpu(const at::Tensor& tensor) {
    return {tensor.sizes().vec(), tensor.scalar_type()};
  }

  WorkPtr later(Message message) {
    messages_.push_back(std::move(message));
    return {};
  }

  /// A first message makes a communicator that waits for those who know nothing of it: torch wants
  /// all of a group in a batch of messages that comes first.
  void check_connected(const std::string& what) const {
    if (channels_.contains(kAll)) return;
    misused("rank " + std::to_string(getRank()) + " " + what +
            " before a collective made the communicator of its group of " +
            std::to_string(getSize()));
  }

  /// A communicator is made at its first use and waits for all its ranks: in a step some of them
  /// may be in another group's use, and wait there.
  void check_early(const std::string& key) const {
    const auto* label = current_label();
    if (label->step == 0) return;
    misused("NCCL makes a communicator at " + to_text({"its first use", label}) + ", of " +
            (key == kAll ? std::to_string(getSize()) + " ranks" : "ranks " + key) +
            "; convoy is to make all before its first step");
  }

  NcclChannel& channel(const std::string& key, const at::Tensor& tensor, int rank, int size) {
    auto& one = channels_[key];
    if (!one) {
      check_early(key);
      one = std::make_unique<NcclChannel>(c10::make_intrusive<c10d::PrefixStore>(key, store_), rank,
                                          size, tensor.device(), timeout_);
    }
    return *one;
  }

  NcclChannel& all(const at::Tensor& tensor) { return channel(kAll, tensor, getRank(), getSize()); }

  /// The communicator of two, which both make at their first message.
  std::pair<NcclChannel*, int> pair(const at::Tensor& tensor, int peer) {
    const int low = std::min(getRank(), peer), high = std::max(getRank(), peer);
    const int own = getRank() == low ? 0 : 1;
    const auto key = std::to_string(low) + ":" + std::to_string(high);
    return {&channel(key, tensor, own, 2), 1 - own};
  }

  c10::intrusive_ptr<c10d::Store> store_;
  std::chrono::milliseconds timeout_;
  std::map<std::string, std::unique_ptr<NcclChannel>> channels_;
  bool coalesces_ = false;
  std::vector<Message> messages_;
};

}  // namespace

}  // namespace convoy::fake_gpu

extern "C" __attribute__((visibility("default"))) void convoy_make_nccl_backend_1(
    const convoy::comm::NcclGathering& gathering, c10::intrusive_ptr<c10d::Backend>& backend) {
  backend = c10::make_intrusive<convoy::fake_gpu::NcclBackend>(
      c10::make_intrusive<c10d::PrefixStore>("fake_nccl", gathering.store), gathering.rank,
      gathering.size, gathering.timeout);
}
