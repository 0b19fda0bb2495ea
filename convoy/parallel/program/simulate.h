#pragma once

#include <algorithm>
#include <functional>
#include <limits>
#include <map>
#include <utility>
#include <vector>

#include "convoy/parallel/parallelism.h"
#include "convoy/parallel/program/check.h"

namespace convoy::parallel {

/// Costs of computing a micro-batch: by block, or by virtual stage. Times are in any unit, kept
/// memory in bytes.
struct Costs {
  std::vector<double> forward;
  std::vector<double> backward;     ///< both halves
  std::vector<double> weight = {};  ///< of that the weight half; empty: half of it
  /// Times of messages over the border behind, of a forward's result and of its gradient; empty: no
  /// time.
  std::vector<double> send = {}, send_grad = {};
  std::vector<double> kept = {};  ///< from forward until backward; empty: nothing
  /// Bytes of `kept` until the weight half, where a backward is split; empty: all.
  std::vector<double> put_off = {};
  std::vector<double> inputs = {};  ///< all that is kept until a recomputation
  /// Bytes of its output: another rank that receives it keeps it until its own backward; empty:
  /// nothing.
  std::vector<double> sent_bytes = {};
  std::vector<double> grad_bytes = {};  ///< of the gradient that comes back
  /// Times of sums over tensor ranks in forward and in backward, which wait for links; empty: none.
  std::vector<double> forward_sums = {}, backward_sums = {};

  double input_half(size_t at) const { return backward.at(at) - weight_half(at); }
  double weight_half(size_t at) const {
    return weight.empty() ? backward.at(at) / 2 : weight.at(at);
  }
};

/// Time of a message: a constant, and its bytes at a rate.
struct Link {
  double seconds = 0;
  double bytes_per_second = std::numeric_limits<double>::infinity();

  double time_of(double bytes) const { return seconds + bytes / bytes_per_second; }
};

/// Times to bring a bucket of offloaded state into memory, and to write it back.
struct TransferTimes {
  Place place = Place::Device;
  std::vector<double> of_bucket = {};
};

/// Times of collectives of a kind by bucket: each alone, and until the next may begin behind it,
/// where some ranks are ready for that before others; empty: it begins at the end.
struct InRow {
  std::vector<double> alone = {}, in_row = {};

  InRow() = default;
  InRow(std::vector<double> each) : alone(std::move(each)) {}  // NOLINT: times are such
};

/// Times of a step on a rank beside its blocks, in the units of Costs: its collectives and
/// transfers by bucket, each kind one after the other while it computes, and its updates. Empty: no
/// time.
struct StepTimes {
  InRow reduce = {}, reduce_scatter = {}, gather = {};
  /// Time by unit of the sum over tensor ranks that share out tokens, which is waited for.
  std::vector<double> reduce_tensor = {};
  std::map<Kind, TransferTimes> offload = {};
  std::vector<double> update = {};
  /// Time by unit to add the gradient of a micro-batch to those before it.
  std::vector<double> accumulate = {};
  /// Time of the sums of its parts of buckets over the other state replicas, behind all others.
  double replicas = 0;
  double totals = 0;  ///< the sums of losses and norms
  /// Links by stage of the pipeline, for messages there; empty: messages take Costs::send.
  std::vector<Link> to_stage = {};
  /// Times for all tables that are kept by rows together.
  double fetch_rows = 0, reduce_rows = 0, update_rows = 0;
  /// Part of a collective during which the rank computes on; during the rest it waits, as where its
  /// engine's thread has no core of its own.
  double beside = 1;
  double speed = 1;  ///< of the rank's computing, where Costs are of a rank with 1
};

/// Times of a forward, recomputation, backward or half of one on one rank.
struct TimedInstruction {
  Instruction instruction;
  double begin = 0, end = 0;
};

/// Simulated step.
struct Timeline {
  std::vector<std::vector<TimedInstruction>> ranks;
  double length = 0;
  /// [rank] Bytes kept for backward from a time on, by ascending times.
  std::vector<std::vector<std::pair<double, double>>> memory = {};
  /// [rank] Time that it computed, waited for collectives and offloaded state, and spent in
  /// updates.
  std::vector<double> computing = {}, held_up = {}, updates = {};

  /// Part of the time in which ranks compute nothing.
  double idle() const;
  /// Peak bytes that are kept at a time on a rank.
  double peak(size_t rank) const;
};

/// Times at which messages from one rank to another arrive: they overlap with computing, one after
/// the other.
class Wire {
 public:
  /// Time at which a message that takes so long arrives.
  double send(double now, double takes) { return free_ = std::max(free_, now) + takes; }
  /// Time at which a message of so many bytes arrives over a link: the next one may leave while it
  /// is on its way.
  double send(double now, double bytes, const Link& link) {
    return send(now, bytes / link.bytes_per_second) + link.seconds;
  }

 private:
  double free_ = 0;
};

/// Detail of a simulation: each span and the memory over time, or sums only, which is faster.
enum class Detail { Timeline, Totals };

/// A sum of gradients that a rank begins.
struct BegunSum {
  int64_t bucket;
  double at;
};

/// Returns the end of a step's last sum, given the sums that each rank begins: [rank][sum].
using EndOfSums = std::function<double(const std::vector<std::vector<BegunSum>>&)>;

/// Plays the programs of all ranks, which must have passed check(), with costs by block. A receive
/// waits for its message, ReduceLoss for all ranks. Without `times` only blocks and messages take
/// time: where messages take none, a bubble is due to the schedule, or to stages that are not
/// alike.
///
/// `times`: by rank. Weights are waited for where they are first read, sums by ReduceLoss,
/// offloaded state by the update, the gather or the sum that reads it; each place brings and writes
/// one bucket after the other. Ranks that share the data are alike, so that one of each stage
/// stands for all. The result is the last of `num_steps` steps: transfers that the step before left
/// under way continue in it. `end_of_sums` gives the end of sums that ranks begin at different
/// times; without it they take the times of StepTimes.
Timeline simulate(const std::vector<RankProgram>& ranks, const Costs& costs,
                  const std::vector<StepTimes>& times = {}, int num_steps = 1,
                  Detail detail = Detail::Timeline, const EndOfSums& end_of_sums = {});

}  // namespace convoy::parallel
