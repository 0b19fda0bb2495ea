#pragma once

#include <algorithm>
#include <functional>
#include <limits>
#include <map>
#include <utility>
#include <vector>

#include "convoy/schedule/run/check.h"
#include "convoy/schedule/run/run_options.h"

namespace convoy::schedule {

/// What computing a micro-batch takes, and what it keeps: by block, or by virtual stage. Times are
/// in any unit, kept memory in bytes.
struct Costs {
  std::vector<double> forward;
  std::vector<double> backward;     ///< both halves
  std::vector<double> weight = {};  ///< of that the weight half; empty: half of it
  /// What a message over the border behind takes, of what a forward returned and of its gradient;
  /// empty: no time.
  std::vector<double> send = {}, send_grad = {};
  std::vector<double> kept = {};  ///< from forward until backward; empty: nothing
  /// Of that until the weight half, where a backward is split; empty: all.
  std::vector<double> put_off = {};
  std::vector<double> inputs = {};  ///< all that is kept until a recomputation
  /// Of what it hands on: another rank that receives it keeps it until its own backward; empty:
  /// nothing.
  std::vector<double> sent_bytes = {};
  std::vector<double> grad_bytes = {};  ///< of the gradient that comes back
  /// Of forward and of backward what sums over tensor ranks take, which wait for links; empty:
  /// nothing.
  std::vector<double> forward_sums = {}, backward_sums = {};

  double input_half(size_t at) const { return backward.at(at) - weight_half(at); }
  double weight_half(size_t at) const {
    return weight.empty() ? backward.at(at) / 2 : weight.at(at);
  }
};

/// What a message takes: a constant, and its bytes at a rate.
struct Link {
  double seconds = 0;
  double bytes_per_second = std::numeric_limits<double>::infinity();

  double time_of(double bytes) const { return seconds + bytes / bytes_per_second; }
};

/// What bringing a bucket of offloaded state into memory takes, and writing it back.
struct TransferTimes {
  Place place = Place::Device;
  std::vector<double> of_bucket = {};
};

/// What collectives of a kind take by bucket: each alone, and until the next may begin behind it,
/// where some ranks are ready for that before others; empty: it begins at the end.
struct InRow {
  std::vector<double> alone = {}, in_row = {};

  InRow() = default;
  InRow(std::vector<double> each) : alone(std::move(each)) {}  // NOLINT: times are such
};

/// What else a step takes on a rank, in the units of Costs: its collectives and transfers by
/// bucket, each one after the other beside the computing, and its updates. Empty: no time.
struct StepTimes {
  InRow reduce = {}, reduce_scatter = {}, gather = {};
  /// By unit: the sum over tensor ranks that share out tokens, which is waited for.
  std::vector<double> reduce_tensor = {};
  std::map<Kind, TransferTimes> offload = {};
  std::vector<double> update = {};
  /// By unit: adding the gradient of a micro-batch to those of the ones before it.
  std::vector<double> accumulate = {};
  /// The sums of its parts of buckets over the other state replicas, behind all others.
  double replicas = 0;
  double totals = 0;  ///< the sums of losses and norms
  /// By stage of the pipeline, for messages there; empty: they take what Costs::send says.
  std::vector<Link> to_stage = {};
  /// Of all tables that are kept by rows together.
  double fetch_rows = 0, reduce_rows = 0, update_rows = 0;
  /// The part of a collective that the rank computes beside; the rest holds it up, as where its
  /// engine's thread has no core of its own.
  double beside = 1;
  double speed = 1;  ///< of the rank's computing, where Costs are of a rank with 1
};

/// A forward, recomputation, backward or half of one on one rank.
struct Span {
  Instruction instruction;
  double begin = 0, end = 0;
};

/// A step as it would go.
struct Timeline {
  std::vector<std::vector<Span>> ranks;
  double length = 0;
  /// [rank] What is kept for backward from a time on, in bytes, by ascending times.
  std::vector<std::vector<std::pair<double, double>>> memory = {};
  /// [rank] How long it computed, and how long it was held up by collectives and offloaded state,
  /// and by updates.
  std::vector<double> computing = {}, held_up = {}, updates = {};

  /// The part of the time in which ranks compute nothing.
  double idle() const;
  /// The most bytes that are kept at a time on a rank.
  double peak(size_t rank) const;
};

/// When messages arrive that are sent from one rank to another: they go beside the computing, one
/// after the other.
class Wire {
 public:
  /// Of a message that takes so long: when it is there.
  double send(double now, double takes) { return free_ = std::max(free_, now) + takes; }
  /// The next may leave while this one is on its way.
  double send(double now, double bytes, const Link& link) {
    return send(now, bytes / link.bytes_per_second) + link.seconds;
  }

 private:
  double free_ = 0;
};

/// What of a step is told: each span and what is kept when, or sums only, which is faster.
enum class Told { AllSpans, Sums };

/// A sum of gradients that a rank begins.
struct BegunSum {
  int64_t bucket;
  double at;
};

/// When a step's last sum has ended, of what each rank begins: [rank][sum].
using EndOfSums = std::function<double(const std::vector<std::vector<BegunSum>>&)>;

/// Plays the programs of all ranks, which must have passed check(), with costs by block. A receive
/// waits for what it receives, ReduceLoss for all ranks. Without `times` nothing else but blocks
/// and messages takes time: where messages take none, a bubble is one because of the schedule, or
/// since stages are not alike.
///
/// `times`: by rank. Weights are waited for where they are first read, sums by ReduceLoss,
/// offloaded state by the update, the gather or the sum that reads it; each place brings and writes
/// one bucket after the other. Ranks that share the data are alike, so that one of each stage
/// stands for all. The last of `num_steps` steps is told: what the step before left under way goes
/// on in it. `end_of_sums` says when sums have ended that ranks begin at different times; without
/// it they take what StepTimes says.
Timeline simulate(const std::vector<RankProgram>& ranks, const Costs& costs,
                  const std::vector<StepTimes>& times = {}, int num_steps = 1,
                  Told told = Told::AllSpans, const EndOfSums& end_of_sums = {});

}  // namespace convoy::schedule
