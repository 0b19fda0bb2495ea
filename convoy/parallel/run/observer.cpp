#include "convoy/parallel/run/observer.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <cmath>
#include <optional>

#include "convoy/base/activity.h"
#include "convoy/base/fault.h"
#include "convoy/comm/range.h"
#include "convoy/parallel/program/op_table.h"

namespace convoy::parallel {

namespace {

class ActivityObserver : public Observer {
 public:
  void before(const Instruction& i) override {
    const auto name = to_text(i);
    tell_operation(name);
    range_.reset();  // an instruction that threw left it open
    range_.emplace([&] { return name; });
  }
  void after(const Instruction&) override { range_.reset(); }

 private:
  std::optional<comm::Range> range_;
};

bool is_backward(Op op) {
  return op == Op::Backward || op == Op::BackwardInput || op == Op::BackwardWeight;
}

class FaultInjector : public Observer {
 public:
  FaultInjector(FlatBuffers& flat, Gathers& gathers, const comm::Groups& groups)
      : flat_(flat), gathers_(gathers), groups_(groups) {}

  void before(const Instruction& i) override {
    skips_ = false;
    fault_at("instruction");
    const char* phase = facts_of(i.op).phase;
    if (phase == nullptr) return;
    const auto fault = fault_at(phase);
    const bool reduces = i.op == Op::Reduce || i.op == Op::ReduceScatter;
    skips_ = fault == Fault::kSkip && !reduces;  // the others wait for a reduction
    if (fault == Fault::kMismatch) {
      auto extra = at::zeros({1});
      groups_.world.all_reduce(extra, comm::ReduceOp::Sum, "injected fault");
    }
    const bool gives_zeros = fault == Fault::kSkip && reduces;
    if (fault != Fault::kNan && fault != Fault::kDouble && !gives_zeros) return;
    fault_ = fault;
    spoil(i);
  }

  bool skips(const Instruction&) override { return skips_; }

  void after(const Instruction& i) override {
    if (is_backward(i.op) && std::exchange(spoils_backward_, false)) {
      spoil_gradient(flat_.layout().table().units_of_block[static_cast<size_t>(i.block)]);
    }
  }

 private:
  void spoil(at::Tensor numbers) const {
    if (fault_ == Fault::kDouble) {
      numbers.mul_(2);
    } else {
      numbers.fill_(fault_ == Fault::kNan ? NAN : 0);
    }
  }

  void spoil(const Instruction& i) {
    const at::NoGradGuard no_grad;
    if (is_backward(i.op)) {
      spoils_backward_ = true;
    } else if (i.op == Op::Store) {
      if (i.kind != Kind::Gradients) spoil(flat_.offload()->here(i.kind, i.bucket));
    } else if (i.op == Op::Reduce || i.op == Op::ReduceScatter) {
      spoil_bucket(i.bucket);
    } else {
      gathers_.settle();
      flat_.offload() != nullptr || fault_ == Fault::kDouble ? spoil_what_is_here(i)
                                                             : flat_.fill(NAN);
    }
  }

  /// Spoils weights that are in memory, where offloaded ones may not be.
  void spoil_what_is_here(const Instruction& i) {
    for (const int64_t bucket : reads(i, flat_.layout())) {
      spoil(flat_.bucket_weights(bucket));
    }
    if (i.bucket < 0) return;
    const auto kind = i.op == Op::Update ? Kind::Masters : Kind::Weights;
    spoil(flat_.narrow(kind, i.bucket, flat_.part(i.bucket)));
  }

  /// Spoils the gradient of the first of these units that is trained.
  void spoil_gradient(const std::vector<int64_t>& units) {
    for (const int64_t unit : units) {
      if (flat_.layout().table().is_frozen(unit)) continue;
      const auto& slots = flat_.units()[static_cast<size_t>(unit)].slots;
      return slots.front().param->add_to_grad([this](at::Tensor& grad) { spoil(grad); });
    }
  }

  /// Spoils a complete bucket: where it has no memory of its own, the flat buffers hold it.
  void spoil_bucket(int64_t bucket) {
    if (flat_.layout().is_sharded(Kind::Gradients)) {
      return spoil_gradient(flat_.layout().buckets()[static_cast<size_t>(bucket)].units);
    }
    const auto& all = flat_.layout().buckets()[static_cast<size_t>(bucket)].all;
    // One NaN element is enough to make the norm NaN.
    const auto end = fault_ == Fault::kNan ? all.begin + 1 : all.end;
    spoil(flat_.grads(bucket, {all.begin, end}));
  }

  FlatBuffers& flat_;
  Gathers& gathers_;
  comm::Groups groups_;
  bool spoils_backward_ = false;
  bool skips_ = false;
  Fault fault_ = Fault::kNone;  // that is under way
};

}  // namespace

std::unique_ptr<Observer> make_activity_observer() {
  return std::make_unique<ActivityObserver>();
}

std::unique_ptr<Observer> make_fault_injector(FlatBuffers& flat, Gathers& gathers,
                                              const comm::Groups& groups) {
  return std::make_unique<FaultInjector>(flat, gathers, groups);
}

}  // namespace convoy::parallel
