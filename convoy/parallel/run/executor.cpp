#include "convoy/parallel/run/executor.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <cmath>

#include "convoy/base/error.h"
#include "convoy/base/out_of_memory.h"
#include "convoy/base/timing.h"
#include "convoy/comm/to_host.h"
#include "convoy/parallel/buffers/finite.h"
#include "convoy/parallel/run/layer_faults.h"

namespace convoy::parallel {

namespace {

/// Instructions that receive from other stages.
std::vector<Instruction> received_in(const Program& program, const Pass& pass) {
  std::vector<Instruction> out;
  for (const auto& i : program) {
    const bool receives = i.op == Op::Receive || i.op == Op::ReceiveGrad;
    if (receives && !pass.empty(i.micro_batch)) out.push_back(i);
  }
  return out;
}

}  // namespace

Executor::Executor(nn::BlockList blocks, FlatBuffers& flat, RowTables& rows, comm::Groups groups,
                   at::ScalarType compute_dtype, const StepOptions& options)
    : blocks_(std::move(blocks)),
      flat_(flat),
      rows_(rows),
      groups_(std::move(groups)),
      compute_dtype_(compute_dtype),
      gradients_(flat, groups_, options.parallelism.reduce_each),
      gathers_(flat, groups_),
      p2p_(groups_, flat.fp32().device()),
      update_(flat, groups_, compute_dtype == at::kHalf, std::ssize(blocks_.back()->metrics())),
      layers_(with_layer_faults(groups_.tensor, [this] { return in_backward_; })),
      context_(with_layer_faults(groups_.context, [this] { return in_backward_; })),
      experts_(with_layer_faults(groups_.experts, [this] { return in_backward_; })) {
  observers_.push_back(make_activity_observer());
  observers_.push_back(make_fault_injector(flat, gathers_, groups_));
}

StepResult Executor::run(const Program& program, const std::vector<MicroBatch>& micro_batches,
                         const StepInput& input, const OptimizerOptions& optimizer) {
  auto pass = make_pass(micro_batches, input, nn::Mode::Train, program);
  if (auto* offload = flat_.offload()) offload->forget();
  gradients_.begin_step();
  update_.begin_step(input, optimizer);
  if (p2p_.asks_early()) p2p_.expect(received_in(program, pass));
  wait_seconds_ = 0;
  for (size_t at = 0; at < program.size(); ++at) {
    const auto& i = program[at];
    update_follows_ = at + 1 < program.size() && program[at + 1].op == Op::Update;
    try {
      observed(i, [&] { execute(pass, i); });
    } catch (const std::exception& error) {
      if (!can_give_up(i, input) || !is_out_of_memory(error)) throw;
      gathers_.await(i);  // what it did not come to read is released by the program
      pass.give_up();
      update_.give_up();
    }
    if (!overflowed_) continue;
    if (update_.spoilt_loss() >= 0) fail_for_loss(micro_batches, input, program);
    fail_for_gradient(micro_batches, input, program);
  }
  p2p_.settle();  // all was received before the last sums
  auto result = update_.result;
  // The host's clock would also count work still queued on a GPU.
  result.wait_seconds = flat_.fp32().device().is_cpu() ? wait_seconds_ : NAN;
  return result;
}

nn::Bundle Executor::forward(const Program& program, const MicroBatch& batch, nn::Mode mode) {
  const std::vector<MicroBatch> batches{batch};
  const StepInput input;
  auto pass = make_pass(batches, input, mode, program);
  if (p2p_.asks_early()) p2p_.expect(received_in(program, pass));
  at::NoGradGuard no_grad;
  for (const auto& i : program) execute(pass, i);
  p2p_.settle();  // no stage runs ahead
  return std::move(pass.result(0));
}

Pass Executor::make_pass(const std::vector<MicroBatch>& micro_batches, const StepInput& input,
                         nn::Mode mode, const Program& program) {
  const PassInput given{micro_batches,
                        input,
                        mode,
                        compute_dtype_,
                        flat_.fp32().device(),
                        layers_,
                        flat_.layout().options().parallelism.sequence_parallel,
                        context_,
                        experts_,
                        flat_.layout().options().parallelism.expert_joined};
  return {blocks_, flat_.layout(), gradients_, given, program};
}

template <class Run>
void Executor::observed(const Instruction& i, const Run& run) {
  bool skips = false;
  for (const auto& observer : observers_) {
    observer->before(i);
    skips = observer->skips(i) || skips;
  }
  if (!skips) run();
  for (const auto& observer : observers_) observer->after(i);
}

/// Whether this rank can skip an instruction: other ranks wait inside of layers only where they
/// share them.
bool Executor::can_give_up(const Instruction& i, const StepInput& input) const {
  if (!input.may_give_up || layers_.size() * context_.size() * experts_.size() > 1) {
    return false;
  }
  switch (i.op) {
    case Op::Load:
    case Op::Forward:
    case Op::Loss:
    case Op::Recompute:
    case Op::Backward:
    case Op::BackwardInput:
    case Op::BackwardWeight:
      return true;
    default:
      return false;
  }
}

void Executor::execute(Pass& pass, const Instruction& i) {
  if (groups_.shard.size() > 1) timed([&] { gathers_.await(i); });
  switch (i.op) {
    case Op::Load:
      pass.load(i.micro_batch);
      break;
    case Op::Gather:
      timed([&] { gathers_.start(i.bucket); });
      break;
    case Op::Release:
      flat_.detach(i.bucket);
      break;
    case Op::Fetch:
      flat_.offload()->fetch(i.kind, i.bucket);
      break;
    case Op::Store:
      store(pass, i);
      break;
    case Op::Forward:
      in_layers(false, [&] { pass.forward(i.block, i.micro_batch); });
      break;
    case Op::Loss:
      take_loss(pass, i.micro_batch);
      break;
    case Op::Recompute:
      in_layers(false, [&] { pass.recompute(i.block, i.micro_batch); });
      break;
    case Op::Backward:
      in_layers(true, [&] { pass.backward(i.block, i.micro_batch); });
      break;
    case Op::BackwardInput:
      in_layers(true, [&] { pass.backward_input(i.block, i.micro_batch); });
      break;
    case Op::BackwardWeight:
      in_layers(true, [&] { pass.backward_weight(i.block, i.micro_batch); });
      break;
    case Op::Send:
    case Op::Receive:
    case Op::SendGrad:
    case Op::ReceiveGrad:
      timed([&] { pass.transfer(i, p2p_); });
      break;
    case Op::Accumulate:
      if (flat_.layout().is_by_rows(i.unit)) return execute_on_rows(pass, i);
      gradients_.accumulate(i.unit, i.micro_batch);
      break;
    case Op::ReduceTensor:
      timed([&] { gradients_.reduce_tensor(i.unit); });
      break;
    case Op::Reduce:
      timed([&] { gradients_.reduce(i.bucket); });
      break;
    case Op::ReduceScatter:
      timed([&] { gradients_.reduce_scatter(i.bucket, i.micro_batch); });
      break;
    case Op::ReduceTied:
      timed([&] { gradients_.reduce_tied(i.unit); });
      break;
    case Op::ReduceLoss:
      timed([&] { gradients_.wait(); });
      for (const int64_t unit : flat_.layout().row_units()) {
        update_.add_squares(rows_.of(unit).squares());
      }
      update_.close_totals();
      timed([&] { update_.reduce_totals(); });
      break;
    case Op::Clip:
      // Else the update does that.
      if (!update_follows_ || !update_.collects()) overflowed_ = !update_.clip();
      break;
    case Op::Update:
      update_.add_bucket(i.bucket);
      if (!update_follows_ || !update_.collects()) overflowed_ = !update_.update_added();
      if (flat_.layout().offloaded(Kind::Gradients)) {
        flat_.offload()->drop(Kind::Gradients, i.bucket);
      }
      break;
    case Op::FetchRows:
    case Op::ReduceRows:
    case Op::UpdateRows:
    case Op::ScoreRows:
      execute_on_rows(pass, i);
      break;
  }
}

void Executor::execute_on_rows(Pass& pass, const Instruction& i) {
  auto& table = rows_.of(i.unit);
  const auto& input = pass.input();
  const double before = groups_.shard.traffic().waited;
  switch (i.op) {
    case Op::FetchRows:
      rows_.fetch(i.unit, input.micro_batches, input.step, input.mode);
      break;
    case Op::Accumulate:
      table.accumulate(i.micro_batch, i.micro_batch + 1 == pass.num_micro_batches());
      break;
    case Op::ReduceRows:
      table.reduce();
      break;
    case Op::UpdateRows:
      if (!update_.result.skipped) table.update(update_.numbers(), update_.weight_decay(i.unit));
      break;
    default:
      table.score(pass.result(0));
      break;
  }
  wait_seconds_ += groups_.shard.traffic().waited - before;
}

namespace {

void check_scalar(const at::Tensor& value, const char* name, const char* what) {
  if (value.numel() == 1) return;
  fail<UsageError>("parallel", "the {} of a batch is of shape [{}]; expected one number, {}", name,
                   fmt::join(value.sizes(), ", "), what);
}

}  // namespace

void Executor::take_loss(Pass& pass, int64_t m) {
  if (pass.empty(m)) return;
  const auto& out = pass.result(m);
  const auto &loss = required(out, "loss"), &count = required(out, "count");
  check_scalar(loss, "loss", "the sum over the batch's targets");
  check_scalar(count, "count", "the number of its targets");
  if (groups_.tensor.rank() > 0) return;  // all tensor ranks have the same
  update_.add(loss, count);
  if (update_.has_metrics()) update_.add_metrics(required(out, "metrics"));
}

void Executor::store(const Pass& pass, const Instruction& i) {
  if (i.kind == Kind::Gradients) {
    const bool last = i.micro_batch + 1 == pass.num_micro_batches();
    timed([&] { gradients_.complete(i.bucket, last); });
    if (last) update_.add_squares(i.bucket);
  }
  flat_.offload()->store(i.kind, i.bucket);
}

/// Adds to the time that communication takes.
template <class Work>
void Executor::timed(const Work& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  wait_seconds_ += seconds_since(start);
}

/// Counts the time that layers wait for other ranks as communication.
template <class Work>
void Executor::in_layers(bool backward, const Work& work) {
  in_backward_ = backward;
  const auto waited = [&] { return comm::Group::traffic_of({layers_, context_, experts_}).waited; };
  const double before = waited();
  work();
  wait_seconds_ += waited() - before;
}

template <class Look>
void Executor::run_again(const std::vector<MicroBatch>& micro_batches, const StepInput& input,
                         const Program& program, const Look& look) {
  const Instruction end{Op::ReduceLoss};
  Program until(program.begin(), std::find(program.begin(), program.end(), end));
  std::erase_if(until, [](const Instruction& i) {
    return i.op == Op::Store || (i.op == Op::Fetch && i.kind != Kind::Weights);
  });
  if (auto* offload = flat_.offload()) offload->forget();
  auto again = make_pass(micro_batches, input, nn::Mode::Train, until);
  gradients_.begin_step();
  for (const auto& i : until) {
    observed(i, [&] {
      if (i.op == Op::ReduceTied || i.op == Op::ReduceTensor) return;
      const bool sums = i.op == Op::Reduce || i.op == Op::ReduceScatter || i.op == Op::ReduceRows;
      if (!sums) execute(again, i);
      look(again, i);
    });
  }
}

void Executor::fail_for_loss(const std::vector<MicroBatch>& micro_batches, const StepInput& input,
                             const Program& program) {
  const auto& world = groups_.world;
  int64_t who = update_.spoilt_loss();  // of tensor ranks the first, which tells for all
  const double loss = update_.result.loss_sum;
  // The last stage of a pipeline has the loss; an earlier one may have spoilt it.
  if (groups_.pipeline.size() > 1) {
    const auto num_blocks = static_cast<int64_t>(blocks_.size());
    auto firsts = at::full({world.size()}, num_blocks, at::kLong);  // block that is not finite
    auto* firsts_of = firsts.data_ptr<int64_t>();
    auto& first = firsts_of[world.rank()];
    run_again(micro_batches, input, program, [&](Pass& pass, const Instruction& i) {
      if (i.op == Op::Reduce || i.op == Op::ReduceScatter) gradients_.finite(i.bucket);
      if (i.op != Op::Forward || pass.empty(i.micro_batch)) return;
      for (const auto& [name, tensor] : pass.output(i.block, i.micro_batch)) {
        if (tensor.requires_grad() && !is_finite(tensor.detach())) first = std::min(first, i.block);
      }
    });
    firsts.sub_(num_blocks);
    world.all_reduce(firsts, comm::ReduceOp::Sum, "find the stage with the bad loss");
    for (const int r : groups_.mesh.of(static_cast<int>(who)).ranks_along(Axis::Pipeline)) {
      if (firsts_of[r] < firsts_of[who]) who = r;
    }
  }
  fail_on_all_ranks<NumericError>("train",
                                  "the loss of step {} is not finite on {}; got {}; try a lower "
                                  "learning_rate, max_grad_norm, or look for NaN in the data",
                                  input.step + 1, groups_.mesh.who(static_cast<int>(who)),
                                  std::isnan(loss) ? "nan" : "inf");
}

void Executor::fail_for_gradient(const std::vector<MicroBatch>& micro_batches,
                                 const StepInput& input, const Program& program) {
  const auto& world = groups_.world;
  std::string who = fmt::format("on rank {}", world.rank());
  // The ranks' own gradients are summed away by now: compute them again.
  if (world.size() > 1) {
    auto spoilt = at::zeros({world.size()}, at::kLong);
    run_again(micro_batches, input, program, [&](Pass&, const Instruction& i) {
      if (i.op == Op::ReduceRows && !rows_.of(i.unit).finite()) spoilt[world.rank()] = 1;
      if (i.op != Op::Reduce && i.op != Op::ReduceScatter) return;
      if (!gradients_.finite(i.bucket)) spoilt[world.rank()] = 1;
    });
    world.all_reduce(spoilt, comm::ReduceOp::Sum, "find the rank with the bad gradient");
    std::vector<int64_t> ranks;
    for (int64_t r = 0; r < world.size(); ++r) {
      if (comm::item<int64_t>(spoilt[r]) != 0) ranks.push_back(r);
    }
    // A bad gradient of a stage also reaches all stages before it, so the last one is to blame.
    const auto stage_of = [&](int64_t r) {
      return groups_.mesh.of(static_cast<int>(r)).place(Axis::Pipeline);
    };
    const int last = ranks.empty() ? 0 : stage_of(ranks.back());
    std::erase_if(ranks, [&](int64_t r) { return stage_of(r) < last; });
    // A bad gradient of one tensor or context rank reaches all ranks that share the layer.
    std::vector<std::string> groups;
    const bool together = std::all_of(ranks.begin(), ranks.end(), [&](int64_t r) {
      const auto rank = static_cast<int>(r);
      if (const auto name = groups_.mesh.who(rank); groups.empty() || groups.back() != name) {
        groups.push_back(name);
      }
      const auto group = groups_.mesh.of(rank).ranks_along(Axis::Context | Axis::Tensor);
      return std::all_of(group.begin(), group.end(), [&](int other) {
        return std::find(ranks.begin(), ranks.end(), other) != ranks.end();
      });
    });
    who = ranks.empty() ? "although that of each rank is"
          : together    ? fmt::format("on {}", fmt::join(groups, " and "))
                        : fmt::format("on rank {}", fmt::join(ranks, ", "));
  }
  fail_on_all_ranks<NumericError>(
      "train",
      "the gradient of step {} is not finite {}; got a norm of {}; try a lower "
      "learning_rate or look for extreme values in the data",
      input.step + 1, who, update_.result.grad_norm);
}

}  // namespace convoy::parallel
