#include "convoy/comm/echo/echo_engine.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <numeric>

#include "convoy/base/error.h"
#include "convoy/comm/ticket_work.h"

namespace convoy::comm {

namespace {

using WorkPtr = std::shared_ptr<Work>;

class EchoEngine : public Engine {
 public:
  explicit EchoEngine(int rank) : rank_(static_cast<size_t>(rank)) {}

  const char* name() const override { return "echo"; }

  WorkPtr all_reduce(at::Tensor, ReduceOp, const Call&) override {
    return std::make_shared<DoneWork>();
  }
  WorkPtr reduce_scatter(at::Tensor out, at::Tensor in, const Counts& counts, ReduceOp,
                         const Call&) override {
    copy(out, own_part(in, counts));
    return std::make_shared<DoneWork>();
  }
  WorkPtr all_gather(at::Tensor out, at::Tensor in, const Counts& counts, const Call&) override {
    fill(out, counts, in);
    return std::make_shared<DoneWork>();
  }
  WorkPtr broadcast(at::Tensor, int, const Call&) override { return std::make_shared<DoneWork>(); }
  WorkPtr all_to_all(at::Tensor out, const Counts& receive, at::Tensor in, const Counts& send,
                     const Call&) override {
    fill(out, receive, own_part(in, send));
    return std::make_shared<DoneWork>();
  }
  WorkPtr send(at::Tensor, int, const Call& call) override { refuse(call); }
  WorkPtr receive(at::Tensor, int, const Call& call) override { refuse(call); }
  std::shared_ptr<Work> send_receive(at::Tensor out, int, at::Tensor in, int,
                                     const Call&) override {
    fill(in.view({-1}), {in.numel()}, out.view({-1}));
    return std::make_shared<DoneWork>();
  }
  void abort(const std::string&) override {}

 private:
  [[noreturn]] static void refuse(const Call& call) {
    fail<CommunicationError>("comm", "'{}': there is no other rank to send to", call.label);
  }

  at::Tensor own_part(const at::Tensor& all, const Counts& counts) const {
    const auto own = counts.begin() + static_cast<std::ptrdiff_t>(rank_);
    return all.narrow(0, std::accumulate(counts.begin(), own, int64_t{0}), *own);
  }

  /// Fills each part of `out` from `in`, which is repeated where the part is longer.
  static void fill(const at::Tensor& out, const Counts& counts, const at::Tensor& in) {
    int64_t begin = 0;
    for (const int64_t count : counts) {
      for (int64_t at = 0; at < count && in.numel() > 0; at += in.numel()) {
        const int64_t some = std::min(count - at, in.numel());
        copy(out.narrow(0, begin + at, some), in.narrow(0, 0, some));
      }
      begin += count;
    }
  }

  static void copy(at::Tensor out, const at::Tensor& in) {
    if (out.data_ptr() != in.data_ptr()) out.copy_(in);
  }

  size_t rank_;
};

}  // namespace

Group echo_group(int rank, int size) {
  return {rank, size, std::make_shared<EchoEngine>(rank)};
}

}  // namespace convoy::comm
