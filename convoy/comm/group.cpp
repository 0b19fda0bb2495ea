#include "convoy/comm/group.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <chrono>
#include <numeric>
#include <set>

#include "convoy/base/activity.h"
#include "convoy/base/error.h"
#include "convoy/base/timing.h"
#include "convoy/comm/range.h"
#include "convoy/comm/to_host.h"

namespace convoy::comm {

namespace {

void check(const at::Tensor& tensor, const std::string& label) {
  if (tensor.is_contiguous()) return;
  fail<UsageError>("comm", "'{}' needs a contiguous tensor; try .contiguous()", label);
}

void check_average(const at::Tensor& tensor, ReduceOp op, const std::string& label) {
  if (op != ReduceOp::Average || tensor.is_floating_point()) return;
  fail<UsageError>("comm", "'{}' averages integers; expected a floating-point tensor", label);
}

std::shared_ptr<Work> divided(std::shared_ptr<Work> work, ReduceOp op, const at::Tensor& tensor,
                              int size) {
  if (op != ReduceOp::Average) return work;
  return then(std::move(work), [tensor, size]() mutable { tensor.div_(size); });
}

}  // namespace

void Group::Handle::wait() {
  if (!work_) return;
  const Doing doing("wait for " + label_);
  const Range range([&] { return "wait: " + label_; });
  const auto work = std::move(work_);
  work->wait();
}

Group::Group(int rank, int size, std::shared_ptr<Engine> engine)
    : rank_(rank),
      size_(size),
      engine_(size > 1 ? std::move(engine) : nullptr),
      traffic_(std::make_shared<Traffic>()) {
  internal_check(rank >= 0 && rank < size, "comm", "rank {} of {}", rank, size);
}

template <class Start>
Group::Handle Group::begin(const at::Tensor& tensor, const std::string& label, const Start& start,
                           bool counts) const {
  check(tensor, label);
  if (counts) {
    ++traffic_->collectives;
    traffic_->bytes += static_cast<int64_t>(tensor.nbytes());
  }
  const Doing doing(label);
  const Range range([&] { return fmt::format("start: {}, {} bytes", label, tensor.nbytes()); });
  return Handle(start(), label);
}

template <class Start>
void Group::finish(const Start& start) const {
  const auto began = std::chrono::steady_clock::now();
  start().wait();
  if (traffic_) traffic_->waited += seconds_since(began);
}

Group Group::over(
    const std::function<std::shared_ptr<Engine>(std::shared_ptr<Engine>)>& wrap) const {
  auto out = *this;
  if (engine_) out.engine_ = wrap(engine_);
  return out;
}

Counts Group::parts(const Counts& given, const at::Tensor& all, const char* what,
                    const std::string& label) const {
  const auto size = static_cast<size_t>(size_);
  Counts counts = given.empty() ? Counts(size, all.numel() / size_) : given;
  const int64_t total = std::accumulate(counts.begin(), counts.end(), int64_t{0});
  if (counts.size() != size || total != all.numel()) {
    fail<UsageError>("comm", "'{}' {} {} elements in {} parts of {} in all; expected {} parts",
                     label, what, all.numel(), counts.size(), total, size_);
  }
  return counts;
}

Group::Handle Group::reduce(at::Tensor tensor, ReduceOp op, const Call& call) const {
  check_average(tensor, op, call.label);
  if (!engine_) return {};
  traffic_->sum_bytes += static_cast<int64_t>(tensor.nbytes());
  return begin(tensor, call.label, [&] {
    const auto sum = op == ReduceOp::Average ? ReduceOp::Sum : op;
    return divided(engine_->all_reduce(tensor, sum, call), op, tensor, size_);
  });
}

Group::Handle Group::start_all_reduce(at::Tensor tensor, ReduceOp op,
                                      const std::string& label) const {
  return reduce(std::move(tensor), op, {label});
}

void Group::all_reduce(at::Tensor tensor, ReduceOp op, const std::string& label) const {
  finish([&] { return reduce(std::move(tensor), op, {label, true}); });
}

Group::Handle Group::scatter(at::Tensor out, at::Tensor in, ReduceOp op, const Counts& counts,
                             const Call& call) const {
  check_average(in, op, call.label);
  check(out, call.label);
  const auto all = parts(counts, in, "reduces", call.label);
  if (out.numel() != all[static_cast<size_t>(rank_)]) {
    fail<UsageError>("comm", "'{}' reduces into {} elements; expected {}", call.label, out.numel(),
                     all[static_cast<size_t>(rank_)]);
  }
  if (!engine_) {
    if (op == ReduceOp::Add) {
      out.view({-1}).add_(in.view({-1}));
    } else if (out.data_ptr() != in.data_ptr()) {
      out.view({-1}).copy_(in.view({-1}));
    }
    return {};
  }
  traffic_->sum_bytes += static_cast<int64_t>(in.nbytes()) / 2;
  if (op == ReduceOp::Add && !(engine_->adds() && in.is_cpu())) {
    auto sum = at::empty_like(out);
    return begin(in, call.label, [&] {
      auto work = engine_->reduce_scatter(sum.view({-1}), in.view({-1}), all, ReduceOp::Sum, call);
      return then(std::move(work), [out, sum] { at::Tensor(out).add_(sum); });
    });
  }
  return begin(in, call.label, [&] {
    const auto sum = op == ReduceOp::Average ? ReduceOp::Sum : op;
    auto work = engine_->reduce_scatter(out.view({-1}), in.view({-1}), all, sum, call);
    return divided(std::move(work), op, out, size_);
  });
}

Group::Handle Group::start_reduce_scatter(at::Tensor out, at::Tensor in, ReduceOp op,
                                          const std::string& label, const Counts& counts) const {
  return scatter(std::move(out), std::move(in), op, counts, {label});
}

void Group::reduce_scatter(at::Tensor out, at::Tensor in, ReduceOp op, const std::string& label,
                           const Counts& counts) const {
  finish([&] { return scatter(std::move(out), std::move(in), op, counts, {label, true}); });
}

Group::Handle Group::gather(at::Tensor out, at::Tensor in, const Counts& counts,
                            const Call& call) const {
  check(out, call.label);
  const auto all = parts(counts, out, "gathers", call.label);
  if (in.numel() != all[static_cast<size_t>(rank_)]) {
    fail<UsageError>("comm", "'{}' gathers {} elements of rank {}; expected {}", call.label,
                     in.numel(), rank_, all[static_cast<size_t>(rank_)]);
  }
  if (!engine_) {
    if (out.data_ptr() != in.data_ptr()) out.view({-1}).copy_(in.view({-1}));
    return {};
  }
  traffic_->sum_bytes += static_cast<int64_t>(out.nbytes()) / 2;
  return begin(in, call.label,
               [&] { return engine_->all_gather(out.view({-1}), in.view({-1}), all, call); });
}

Group::Handle Group::start_all_gather(at::Tensor out, at::Tensor in, const std::string& label,
                                      const Counts& counts) const {
  return gather(std::move(out), std::move(in), counts, {label});
}

void Group::all_gather(at::Tensor out, at::Tensor in, const std::string& label,
                       const Counts& counts) const {
  finish([&] { return gather(std::move(out), std::move(in), counts, {label, true}); });
}

at::Tensor Group::all_gather(const at::Tensor& tensor, const std::string& label) const {
  auto in = tensor.contiguous();
  auto shape = in.sizes().vec();
  shape.insert(shape.begin(), size_);
  auto out = at::empty(shape, in.options());
  all_gather(out, in, label);
  return out;
}

at::Tensor Group::gather_rows(const at::Tensor& rows, const std::string& label) const {
  const auto own = rows.contiguous();
  const auto counts = all_gather(at::full({1}, own.size(0), at::kLong), label);
  if (rank_ != 0) {
    if (own.numel() > 0) start_send(own, 0, label).wait();
    return {};
  }
  std::vector<at::Tensor> parts{own};
  for (int rank = 1; rank < size_; ++rank) {
    auto shape = own.sizes().vec();
    shape[0] = comm::item<int64_t>(counts[rank]);
    parts.push_back(at::empty(shape, own.options()));
    if (parts.back().numel() > 0) start_receive(parts.back(), rank, label).wait();
  }
  return at::cat(parts);
}

Group::Handle Group::start_broadcast(at::Tensor tensor, int root, const std::string& label) const {
  if (!engine_) return {};
  return begin(tensor, label, [&] { return engine_->broadcast(tensor, root, {label}); });
}

void Group::broadcast(at::Tensor tensor, int root, const std::string& label) const {
  if (!engine_) return;
  finish([&] {
    return begin(tensor, label, [&] { return engine_->broadcast(tensor, root, {label, true}); });
  });
}

Group::Handle Group::call_all_to_all(at::Tensor out, at::Tensor in, const Counts& receive,
                                     const Counts& send, const Call& call) const {
  check(out, call.label);
  const auto from = parts(receive, out, "receives", call.label);
  const auto to = parts(send, in, "sends", call.label);
  if (!engine_) {
    out.view({-1}).copy_(in.view({-1}));
    return {};
  }
  return begin(in, call.label,
               [&] { return engine_->all_to_all(out.view({-1}), from, in.view({-1}), to, call); });
}

Group::Handle Group::start_all_to_all(at::Tensor out, at::Tensor in, const std::string& label,
                                      const Counts& receive, const Counts& send) const {
  return call_all_to_all(std::move(out), std::move(in), receive, send, {label});
}

void Group::all_to_all(at::Tensor out, at::Tensor in, const std::string& label,
                       const Counts& receive, const Counts& send) const {
  finish(
      [&] { return call_all_to_all(std::move(out), std::move(in), receive, send, {label, true}); });
}

Group::Handle Group::start_send(at::Tensor tensor, int to, const std::string& label) const {
  internal_check(to != rank_ && to >= 0 && to < size_, "comm", "'{}': send from rank {} to {}",
                 label, rank_, to);
  return begin(tensor, label, [&] { return engine_->send(tensor, to, {label}); });
}

Group::Handle Group::start_receive(at::Tensor tensor, int from, const std::string& label) const {
  internal_check(from != rank_ && from >= 0 && from < size_, "comm", "'{}': rank {} receives of {}",
                 label, rank_, from);
  const auto start = [&] { return engine_->receive(tensor, from, {label}); };
  return begin(tensor, label, start, /*counts=*/false);
}

Group::Handle Group::start_send_receive(at::Tensor out, int to, at::Tensor in, int from,
                                        const std::string& label) const {
  for (const int other : {to, from}) {
    internal_check(other != rank_ && other >= 0 && other < size_, "comm",
                   "'{}': rank {} sends to and receives from {}", label, rank_, other);
  }
  check(in, label);
  return begin(out, label, [&] { return engine_->send_receive(out, to, in, from, {label}); });
}

void Group::wait(Handle& handle) const {
  const auto began = std::chrono::steady_clock::now();
  handle.wait();
  if (traffic_) traffic_->waited += seconds_since(began);
}

void Group::connect_pairs(const Pairs& pairs, const std::string& label) const {
  if (!engine_) return;
  engine_->connect_pairs(pairs, at::zeros({1}), {label, true});
}

void Group::barrier(const std::string& label) const {
  if (!engine_) return;
  all_reduce(at::zeros({1}, at::kLong), ReduceOp::Sum, label);
}

Traffic Group::traffic_of(const std::vector<Group>& groups) {
  Traffic out;
  std::set<const Traffic*> counted{nullptr};
  for (const auto& group : groups) {
    if (!counted.insert(group.traffic_.get()).second) continue;
    out.collectives += group.traffic_->collectives;
    out.bytes += group.traffic_->bytes;
    out.sum_bytes += group.traffic_->sum_bytes;
    out.waited += group.traffic_->waited;
  }
  return out;
}

void Group::abort(const std::string& reason) const {
  if (engine_) engine_->abort(reason);
}

}  // namespace convoy::comm
