#include "convoy/parallel/observer.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <cmath>
#include <optional>

#include "convoy/base/activity.h"
#include "convoy/base/fault.h"
#include "convoy/comm/range.h"

namespace convoy::parallel {

namespace {

using schedule::Instruction;
using schedule::Op;

class Teller : public Observer {
 public:
  void before(const Instruction& i) override {
    const auto name = schedule::to_text(i);
    tell_operation(name);
    range_.reset();  // an instruction that threw left it open
    range_.emplace([&] { return name; });
  }
  void after(const Instruction&) override { range_.reset(); }

 private:
  std::optional<comm::Range> range_;
};

const char* phase_of(Op op) {
  switch (op) {
    case Op::Forward:
      return "forward";
    case Op::Backward:
      return "backward";
    case Op::Gather:
      return "gather";
    case Op::Update:
      return "update";
    case Op::Store:
      return "offload";
    case Op::Send:
    case Op::SendGrad:
      return "send";
    case Op::Reduce:
    case Op::ReduceScatter:
      return "reduce";
    default:
      return nullptr;
  }
}

class Saboteur : public Observer {
 public:
  Saboteur(Arena& arena, Gathers& gathers, const DataGroups& groups)
      : arena_(arena), gathers_(gathers), groups_(groups) {}

  void before(const Instruction& i) override {
    const char* phase = phase_of(i.op);
    if (phase == nullptr) return;
    const auto fault = fault_at(phase);
    if (fault == Fault::kMismatch) {
      auto extra = at::zeros({1});
      groups_.world.all_reduce(extra, comm::ReduceOp::Sum, "injected fault");
    }
    if (fault == Fault::kNan) spoil(i);
  }

  void after(const Instruction& i) override {
    if (i.op == Op::Backward && std::exchange(spoils_backward_, false)) {
      spoil_gradient(arena_.layout().table().units_of_block[static_cast<size_t>(i.block)]);
    }
  }

 private:
  void spoil(const Instruction& i) {
    const at::NoGradGuard no_grad;
    if (i.op == Op::Backward) {
      spoils_backward_ = true;
    } else if (i.op == Op::Store) {
      if (i.kind != schedule::Kind::Gradients) arena_.offload()->here(i.kind, i.bucket).fill_(NAN);
    } else if (i.op == Op::Reduce || i.op == Op::ReduceScatter) {
      spoil_bucket(i.bucket);
    } else {
      gathers_.settle();
      arena_.offload() != nullptr ? spoil_what_is_here(i) : arena_.fill(NAN);
    }
  }

  /// Offloaded weights may not be in memory.
  void spoil_what_is_here(const Instruction& i) {
    for (const int64_t bucket : schedule::reads(i, arena_.layout())) {
      arena_.bucket_weights(bucket).fill_(NAN);
    }
    if (i.bucket < 0) return;
    const auto kind = i.op == Op::Update ? schedule::Kind::Masters : schedule::Kind::Weights;
    arena_.narrow(kind, i.bucket, arena_.part(i.bucket)).fill_(NAN);
  }

  /// Of the first of these units that is trained.
  void spoil_gradient(const std::vector<int64_t>& units) {
    for (const int64_t unit : units) {
      if (arena_.layout().table().is_frozen(unit)) continue;
      const auto& slots = arena_.units()[static_cast<size_t>(unit)].slots;
      return slots.front().param->add_to_grad([](at::Tensor& grad) { grad.fill_(NAN); });
    }
  }

  /// Of a bucket that is complete: where no memory of its own holds it, the arena does.
  void spoil_bucket(int64_t bucket) {
    if (arena_.layout().in_slices(schedule::Kind::Gradients)) {
      return spoil_gradient(arena_.layout().buckets()[static_cast<size_t>(bucket)].units);
    }
    const auto& all = arena_.layout().buckets()[static_cast<size_t>(bucket)].all;
    arena_.grads(bucket, {all.begin, all.begin + 1}).fill_(NAN);
  }

  Arena& arena_;
  Gathers& gathers_;
  DataGroups groups_;
  bool spoils_backward_ = false;
};

}  // namespace

std::unique_ptr<Observer> make_teller() {
  return std::make_unique<Teller>();
}

std::unique_ptr<Observer> make_saboteur(Arena& arena, Gathers& gathers, const DataGroups& groups) {
  return std::make_unique<Saboteur>(arena, gathers, groups);
}

}  // namespace convoy::parallel
