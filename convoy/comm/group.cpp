#include "convoy/comm/group.h"

#include <ATen/Functions.h>
#include <fmt/format.h>

#include "convoy/base/error.h"

namespace convoy::comm {

Group::Group(int rank, int size, std::shared_ptr<Engine> engine)
    : rank_(rank),
      size_(size),
      engine_(size > 1 ? std::move(engine) : nullptr),
      traffic_(std::make_shared<Traffic>()) {
  internal_check(rank >= 0 && rank < size, "comm", "rank {} of {}", rank, size);
}

template <class Start>
Group::Handle Group::begin(const at::Tensor& tensor, const std::string& label,
                           const Start& start) const {
  ++traffic_->exchanges;
  traffic_->bytes += static_cast<int64_t>(tensor.nbytes());
  const Range range([&] { return fmt::format("start: {}, {} bytes", label, tensor.nbytes()); });
  return Handle(start(), label);
}

Group::Handle Group::start_all_reduce(at::Tensor tensor, ReduceOp op,
                                      const std::string& label) const {
  if (!engine_) return {};
  return begin(tensor, label, [&] { return engine_->all_reduce(tensor, op, label); });
}

void Group::broadcast(at::Tensor tensor, int root, const std::string& label) const {
  if (!engine_) return;
  begin(tensor, label, [&] { return engine_->broadcast(tensor, root, label); }).wait();
}

at::Tensor Group::all_gather(const at::Tensor& tensor, const std::string& label) const {
  auto in = tensor.contiguous();
  auto shape = in.sizes().vec();
  shape.insert(shape.begin(), size_);
  auto out = at::empty(shape, in.options());
  if (!engine_) {
    out[0].copy_(in);
    return out;
  }
  begin(in, label, [&] {
    return engine_->all_gather(out.view({size_, -1}), in.view({-1}), label);
  }).wait();
  return out;
}

void Group::barrier(const std::string& label) const {
  all_reduce(at::zeros({1}, at::kLong), ReduceOp::Sum, label);
}

void Group::abort(const std::string& reason) const {
  if (engine_) engine_->abort(reason);
}

}  // namespace convoy::comm
