#include "convoy/comm/shm/shm_engine.h"

#include <ATen/Parallel.h>

#include "convoy/base/error.h"
#include "convoy/base/text.h"
#include "convoy/comm/staged_engine.h"
#include "convoy/comm/ticket_work.h"
#include "convoy/shm/channel.h"
#include "convoy/shm/cores.h"
#include "convoy/shm/handover.h"
#include "convoy/shm/point_to_point.h"
#include "convoy/shm/worker.h"

namespace convoy::comm {

namespace {

shm::Dtype dtype_of(const at::Tensor& tensor, const std::string& label) {
  switch (tensor.scalar_type()) {
    case at::kFloat:
      return shm::Dtype::F32;
    case at::kDouble:
      return shm::Dtype::F64;
    case at::kHalf:
      return shm::Dtype::F16;
    case at::kBFloat16:
      return shm::Dtype::BF16;
    case at::kChar:
      return shm::Dtype::I8;
    case at::kByte:
    case at::kBool:
      return shm::Dtype::U8;
    case at::kInt:
      return shm::Dtype::I32;
    case at::kLong:
      return shm::Dtype::I64;
    default:
      fail<UsageError>("comm",
                       "'{}' has elements of type {}; expected float, double, half, bfloat16, "
                       "bool, or integers of 8, 32 or 64 bits",
                       label, c10::toString(tensor.scalar_type()));
  }
}

shm::Reduction to_shm(ReduceOp op) {
  return op == ReduceOp::Max ? shm::Reduction::Max : shm::Reduction::Sum;
}

size_t count_of(const at::Tensor& tensor) {
  return static_cast<size_t>(tensor.numel());
}

std::vector<size_t> sizes_of(const Counts& counts) {
  return {counts.begin(), counts.end()};
}

/// Point-to-point transfer of a tensor that has begun.
class PeerWork : public Work {
 public:
  PeerWork(shm::PointToPoint& peers, std::shared_ptr<shm::Ticket> ticket, at::Tensor tensor)
      : peers_(peers), ticket_(std::move(ticket)), tensor_(std::move(tensor)) {}
  void wait() override {
    if (!ticket_->is_done()) peers_.wait(*ticket_);
    ticket_->wait();
  }
  bool done() const override { return ticket_->is_done(); }

 private:
  shm::PointToPoint& peers_;
  std::shared_ptr<shm::Ticket> ticket_;
  at::Tensor tensor_;  // its memory stays
};

class ShmEngine : public Engine {
 public:
  ShmEngine(const char* name, std::shared_ptr<shm::Segment> segment, int rank,
            std::chrono::milliseconds timeout)
      : name_(name),
        channel_(segment, rank, timeout),
        peers_(segment, rank, timeout),
        worker_(!shm::have_cores(segment->ranks_on_host() * at::get_num_threads() + 1)) {}

  const char* name() const override { return name_; }
  bool adds() const override { return true; }

  std::shared_ptr<Work> all_reduce(at::Tensor tensor, ReduceOp op, const Call& call) override {
    const auto dtype = dtype_of(tensor, call.label);
    return start(call, [this, tensor, dtype, op, label = call.label] {
      channel_.all_reduce(tensor.data_ptr(), count_of(tensor), dtype, to_shm(op), label);
    });
  }

  std::shared_ptr<Work> reduce_scatter(at::Tensor out, at::Tensor in, const Counts& counts,
                                       ReduceOp op, const Call& call) override {
    const auto dtype = dtype_of(in, call.label);
    return start(call, [this, out, in, counts = sizes_of(counts), dtype, op, label = call.label] {
      channel_.reduce_scatter(out.data_ptr(), in.data_ptr(), counts, dtype, to_shm(op), label,
                              /*adds=*/op == ReduceOp::Add);
    });
  }

  std::shared_ptr<Work> all_gather(at::Tensor out, at::Tensor in, const Counts& counts,
                                   const Call& call) override {
    const auto dtype = dtype_of(in, call.label);
    return start(call, [this, out, in, counts = sizes_of(counts), dtype, label = call.label] {
      channel_.all_gather(out.data_ptr(), in.data_ptr(), counts, dtype, label);
    });
  }

  std::shared_ptr<Work> broadcast(at::Tensor tensor, int root, const Call& call) override {
    const auto dtype = dtype_of(tensor, call.label);
    return start(call, [this, tensor, dtype, root, label = call.label] {
      channel_.broadcast(tensor.data_ptr(), count_of(tensor), dtype, root, label);
    });
  }

  std::shared_ptr<Work> all_to_all(at::Tensor out, const Counts& receive, at::Tensor in,
                                   const Counts& send, const Call& call) override {
    const auto dtype = dtype_of(in, call.label);
    return start(call, [this, out, in, receive = sizes_of(receive), send = sizes_of(send), dtype,
                        label = call.label] {
      channel_.all_to_all(out.data_ptr(), receive, in.data_ptr(), send, dtype, label);
    });
  }

  std::shared_ptr<Work> send(at::Tensor tensor, int to, const Call& call) override {
    auto ticket = peers_.send(tensor.data_ptr(), count_of(tensor), dtype_of(tensor, call.label), to,
                              call.label);
    return std::make_shared<PeerWork>(peers_, std::move(ticket), std::move(tensor));
  }

  std::shared_ptr<Work> receive(at::Tensor tensor, int from, const Call& call) override {
    auto ticket = peers_.receive(tensor.data_ptr(), count_of(tensor), dtype_of(tensor, call.label),
                                 from, call.label);
    return std::make_shared<PeerWork>(peers_, std::move(ticket), std::move(tensor));
  }

  void abort(const std::string& reason) override { channel_.abort(reason); }

 private:
  template <class Run>
  std::shared_ptr<Work> start(const Call& call, Run run) {
    if (call.waits_at_once) {
      worker_.run(run);
      return std::make_shared<DoneWork>();
    }
    return std::make_shared<TicketWork>(worker_.start(std::move(run)));
  }

  const char* name_;
  shm::Channel channel_;
  shm::PointToPoint peers_;
  shm::Worker worker_;
};

}  // namespace

std::shared_ptr<Engine> make_shm_engine(const char* name, std::shared_ptr<shm::Segment> segment,
                                        int rank, std::chrono::milliseconds timeout) {
  return std::make_shared<ShmEngine>(name, std::move(segment), rank, timeout);
}

Group make_shm_group(const StoreAddress& point, const c10::intrusive_ptr<c10d::Store>& store) {
  constexpr const char* kKey = "shm";
  try {
    std::shared_ptr<shm::Segment> segment;
    if (point.rank == 0) {
      segment = shm::Segment::create(point.size, point.ranks_on_host);
      shm::Handover handover(segment);
      store->set(kKey, handover.name());
      handover.serve(point.timeout);
    } else {
      segment = shm::take_over(store->get_to_str(kKey), point.rank, point.size, point.timeout);
    }
    segment->set_names(point.names);
    segment->enter(point.rank);
    Group group(
        point.rank, point.size,
        make_staged_engine(make_shm_engine("shm", segment, point.rank, point.timeout), at::kCPU));
    group.barrier("start");
    return group;
  } catch (const Error&) {
    throw;
  } catch (const std::exception& error) {
    fail<CommunicationError>("comm", "rank {} of {} could not join the others of this host: {}",
                             point.rank, point.size, first_line(error.what()));
  }
}

}  // namespace convoy::comm
