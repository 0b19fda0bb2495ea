#include "convoy/parallel/program/memory.h"

#include <algorithm>
#include <cmath>
#include <deque>
#include <map>
#include <utility>

#include "convoy/base/scratch_file.h"
#include "convoy/parallel/program/reduces_each.h"
#include "convoy/parallel/step_facts.h"

namespace convoy::parallel {

namespace {

/// Buffers of whole gradients, in elements, as parallel::Gradients takes and returns them.
class GradientPool {
 public:
  GradientPool(const Layout& layout, const StepOptions& options)
      : layout_(layout),
        sharded_(layout.is_sharded(Kind::Gradients)),
        each_(reduces_each(layout, options.parallelism)),
        num_micro_batches_(options.parallelism.micro_batches),
        filling_(static_cast<size_t>(layout.num_buckets()), -1),
        begun_(static_cast<size_t>(layout.table().num_units() * num_micro_batches_)),
        in_scratch_(begun_.size()) {}

  void see(const Instruction& i) {
    const bool loss = i.op == Op::Forward && i.block + 1 == layout_.table().num_blocks();
    const bool half = i.op == Op::BackwardInput || i.op == Op::BackwardWeight;
    if (i.op == Op::Backward || half || loss) {
      for (const int64_t unit : layout_.table().units_of_block[static_cast<size_t>(i.block)]) {
        if (!layout_.table().is_frozen(unit)) begin(unit, i.micro_batch);
      }
    } else if (i.op == Op::Accumulate) {
      const size_t at = place(i.unit, i.micro_batch);
      begun_[at] = false;
      if (!in_scratch_[at]) return;
      in_scratch_[at] = false;
      fill(layout_.bucket_of(i.unit), i.micro_batch);
      scratches_.change(-length(i.unit));
    } else if (i.op == Op::ReduceScatter && sharded_) {
      filling_[static_cast<size_t>(i.bucket)] = -1;
      in_flight_.push_back(i.bucket);
      if (in_flight_.size() > kBucketsInFlight) {
        buckets_.change(-bucket_length(in_flight_.front()));
        in_flight_.pop_front();
      }
    } else if (i.op == Op::Store && i.kind == Kind::Gradients) {
      for (const int64_t bucket : in_flight_) buckets_.change(-bucket_length(bucket));
      in_flight_.clear();  // a sum is stored once it is complete
    }
  }

  int64_t most() const { return buckets_.most + scratches_.most; }

 private:
  /// Pool of elements in use and their peak; returned ones are reused.
  struct Pool {
    int64_t now = 0, most = 0;
    void change(int64_t by) { most = std::max(most, now += by); }
  };

  size_t place(int64_t unit, int64_t micro_batch) const {
    return static_cast<size_t>(unit * num_micro_batches_ + micro_batch);
  }
  int64_t length(int64_t unit) const {
    return layout_.units()[static_cast<size_t>(unit)].all.length();
  }
  int64_t bucket_length(int64_t bucket) const {
    return layout_.buckets()[static_cast<size_t>(bucket)].all.length();
  }

  void begin(int64_t unit, int64_t m) {
    const size_t at = place(unit, m);
    if (begun_[at]) return;
    begun_[at] = true;
    const int64_t bucket = layout_.bucket_of(unit);
    const int64_t filling = filling_[static_cast<size_t>(bucket)];
    const bool in_place = each_ ? filling < 0 || filling == m : m == 0;
    if (!in_place) {
      in_scratch_[at] = true;
      scratches_.change(length(unit));
    } else {
      fill(bucket, m);
    }
  }

  void fill(int64_t bucket, int64_t m) {
    auto& filling = filling_[static_cast<size_t>(bucket)];
    if (filling >= 0) return;
    filling = m;
    if (sharded_) buckets_.change(bucket_length(bucket));
  }

  const Layout& layout_;
  bool sharded_, each_;
  int64_t num_micro_batches_;
  std::vector<int64_t> filling_;          // [bucket] micro-batch; -1: none
  std::vector<bool> begun_, in_scratch_;  // [unit and micro-batch]
  std::deque<int64_t> in_flight_;
  Pool buckets_, scratches_;
};

/// Bytes of the bundles between the blocks of a rank and in messages, as parallel::Pass and
/// P2PCommunication hold them.
class Activations {
 public:
  Activations(const Layout& layout, const StepOptions& options, const std::vector<BlockCost>& costs)
      : layout_(layout),
        costs_(costs),
        most_under_way_(1 + layout.virtual_stages().size()),
        recomputed_(costs.size()) {
    for (const int64_t block : options.recomputed) recomputed_[static_cast<size_t>(block)] = true;
  }

  void see(const Instruction& i) {
    ++instruction_;
    if (i.block < 0) return;
    const auto& cost = costs_[static_cast<size_t>(i.block)];
    const bool again = recomputed_[static_cast<size_t>(i.block)];
    switch (i.op) {
      case Op::Forward:
        reach(cost.forward_bytes);
        now_ += again ? cost.returned_bytes : cost.kept_bytes;
        break;
      case Op::Recompute:
        reach(cost.forward_bytes);
        now_ += cost.kept_bytes;
        break;
      case Op::Backward:
      case Op::BackwardInput:
        // Frees the output of the forward, which the next block held until now, unless it was sent.
        if (again && layout_.holds(i.block + 1)) now_ -= cost.returned_bytes;
        if (i.block + 1 < layout_.table().num_blocks()) now_ -= cost.grad_bytes;
        reach(i.op == Op::Backward ? cost.backward_bytes : cost.half_bytes);
        now_ -= cost.kept_bytes;
        if (i.op == Op::BackwardInput) now_ += cost.put_off_bytes;
        if (i.block > 0) now_ += costs_[static_cast<size_t>(i.block) - 1].grad_bytes;
        break;
      case Op::BackwardWeight:
        reach(0);
        now_ -= cost.put_off_bytes;
        break;
      case Op::Send:
        if (cost.sent_parts > 1) {  // as one
          now_ += cost.sent_bytes;
          reach(0);
          now_ -= again ? cost.returned_bytes : 0;
          leave(i, cost.sent_bytes);
        } else {
          leave(i, again ? cost.returned_bytes : 0);
        }
        break;
      case Op::Receive:
        now_ += cost.sent_bytes;
        break;
      case Op::SendGrad:
        now_ -= cost.sent_bytes;
        reach(cost.grad_parts > 1 ? cost.grad_bytes : 0);
        leave(i, cost.grad_bytes);
        break;
      case Op::ReceiveGrad:
        now_ += cost.grad_bytes;
        reach(0);
        arrive(i);  // the gradient brings word of it
        break;
      default:
        break;
    }
    reach(0);
  }

  int64_t most() const { return most_; }
  /// Index of the instruction with the peak.
  int64_t peak() const { return peak_; }

 private:
  void reach(int64_t more) {
    if (now_ + more <= most_) return;
    most_ = now_ + more;
    peak_ = instruction_;
  }

  struct Sent {
    Instruction send;
    int64_t bytes = 0;
  };

  /// Keeps a sent bundle until its receiver acknowledges it, by when the next bundle of each
  /// virtual stage is in flight.
  void leave(const Instruction& send, int64_t bytes) {
    under_way_.push_back({send, bytes});
    if (under_way_.size() <= most_under_way_) return;
    now_ -= under_way_.front().bytes;
    under_way_.pop_front();
  }

  /// Frees the messages that a received gradient acknowledges: its sender had the output, and all
  /// that was sent to it before.
  void arrive(const Instruction& gradient) {
    const auto is_output = [&](const Sent& sent) {
      return sent.send.op == Op::Send && sent.send.block == gradient.block &&
             sent.send.micro_batch == gradient.micro_batch;
    };
    const auto output = std::find_if(under_way_.begin(), under_way_.end(), is_output);
    if (output == under_way_.end()) return;
    std::deque<Sent> still;
    for (auto sent = under_way_.begin(); sent != under_way_.end(); ++sent) {
      if (sent <= output && sent->send.peer == gradient.peer) {
        now_ -= sent->bytes;
      } else {
        still.push_back(*sent);
      }
    }
    under_way_ = std::move(still);
  }

  const Layout& layout_;
  const std::vector<BlockCost>& costs_;
  size_t most_under_way_;
  std::vector<bool> recomputed_;  // [block]
  int64_t instruction_ = -1, peak_ = -1;
  int64_t now_ = 0, most_ = 0;
  std::deque<Sent> under_way_;
};

/// Buffers of offloaded state, in bytes, as parallel::Offload has them: one bucket that is fetched,
/// one in use, one that is written.
class OffloadPool {
 public:
  OffloadPool(const Layout& layout, const StepOptions& options)
      : layout_(layout), options_(options) {}

  /// Adds an offloaded kind with elements of `width` bytes; returns the bytes of its parts.
  int64_t add(Kind kind, int64_t width) {
    widths_[kind] = width;
    int64_t out = 0;
    for (int64_t b = 0; b < layout_.num_buckets(kind); ++b) out += length({kind, b});
    return out;
  }

  void see(const Instruction& i) {
    const Key key{i.kind, i.bucket};
    const bool adds = reduces_each(layout_, options_.parallelism) && i.micro_batch > 0;
    switch (i.op) {
      case Op::Fetch:
        while (std::find(written_.begin(), written_.end(), key) != written_.end()) let_go();
        take(key);
        break;
      case Op::Store:
        written_.push_back(key);
        break;
      case Op::ReduceScatter:
        if (widths_.contains(Kind::Gradients) && !adds) take({Kind::Gradients, i.bucket});
        break;
      case Op::Gather:
        if (widths_.contains(Kind::Weights)) now_ -= in_memory({Kind::Weights, i.bucket});
        break;
      case Op::Update:
        if (widths_.contains(Kind::Gradients)) now_ -= in_memory({Kind::Gradients, i.bucket});
        break;
      default:
        break;
    }
  }

  int64_t most() const { return most_; }

 private:
  using Key = std::pair<Kind, int64_t>;  // bucket

  static int64_t aligned(int64_t bytes) {
    return static_cast<int64_t>(ScratchFile::aligned(static_cast<size_t>(bytes)));
  }
  int64_t length(const Key& key) const {
    return aligned(layout_.kept(key.first, key.second, 0).length() * widths_.at(key.first));
  }
  int64_t in_memory(const Key& key) const {
    return length(key) + static_cast<int64_t>(ScratchFile::kAlignment);
  }
  void take(const Key& key) {
    while (!written_.empty() && written_.front().second != written_.back().second) let_go();
    most_ = std::max(most_, now_ += in_memory(key));
  }
  void let_go() {
    now_ -= in_memory(written_.front());
    written_.pop_front();
  }

  const Layout& layout_;
  const StepOptions& options_;
  std::map<Kind, int64_t> widths_;  // bytes of an element
  std::deque<Key> written_;         // under way
  int64_t now_ = 0, most_ = 0;
};

/// Bytes of a row's counter, the step of its last update.
constexpr int64_t kRowCounterBytes = 4;

/// Number of rows if all owners had as many as the one with the most, where rows fall to owners at
/// random.
int64_t with_uneven_shares(int64_t rows, int owners) {
  constexpr double kDeviations = 3;
  if (owners == 1) return rows;
  const auto product = static_cast<double>(rows * owners);
  return rows + static_cast<int64_t>(kDeviations * std::sqrt(product));
}

}  // namespace

int64_t most_rows_read(const Layout& layout, int64_t unit, const StepOptions& options) {
  const auto& table = layout.row_table(unit);
  const int64_t samples =
      options.parallelism.micro_batches * layout.options().num_parts * options.parallelism.rows;
  return std::min(table.shape.front(),
                  table.row_reads->of_step + table.row_reads->of_sample * samples);
}

StepMemory memory_of(const Layout& layout, const Program& program, const StepOptions& options,
                     int64_t most_gathered, const std::vector<BlockCost>& costs,
                     int64_t state_bytes) {
  const bool low = layout.options().low_precision;
  const int64_t width = weight_bytes(low);
  MemoryUse out;
  GradientPool pool(layout, options);
  OffloadPool offload(layout, options);
  const auto keep = [&](Kind kind, int64_t each, int64_t& place) {
    // Masters of fp32 are the weights.
    const auto moves = kind == Kind::Masters && !low ? Kind::Weights : kind;
    if (layout.offloaded(kind)) {
      out.offloaded += offload.add(moves, each);
    } else {
      place += layout.kept(kind) * each;
    }
  };
  keep(Kind::Masters, kMasterBytes, out.parameters);
  if (low) keep(Kind::Weights, width, out.parameters);
  keep(Kind::Gradients, kGradientBytes, out.gradients);
  keep(Kind::Moments, state_bytes, out.optimizer);
  for (const int64_t unit : layout.row_units()) {
    const int64_t row = layout.row_table(unit).shape.back();
    const int64_t kept = layout.kept_rows(unit, 0);
    out.parameters += kept * row * 4;
    out.optimizer += kept * (row * state_bytes + kRowCounterBytes);
    // Values of what is read, its gradient, and that of a later micro-batch; the rank that owns
    // most of it decides how much room there is for each.
    const int64_t read =
        with_uneven_shares(most_rows_read(layout, unit, options), layout.options().num_parts);
    const int64_t gradients = options.parallelism.micro_batches > 1 ? 2 : 1;
    out.buffers += read * row * (4 + (low ? width : 0) + 4 * gradients);
  }
  for (const auto& i : program) pool.see(i);
  // The second step starts with the transfers that the first leaves in flight.
  constexpr int kSteps = 2;
  for (int step = 0; step < kSteps && out.offloaded > 0; ++step) {
    for (const auto& i : program) offload.see(i);
  }
  out.buffers += offload.most();
  out.gathered = most_gathered * width;
  (layout.is_sharded(Kind::Gradients) ? out.gathered : out.buffers) += pool.most() * 4;
  if (costs.empty()) return {out};
  Activations activations(layout, options, costs);
  for (const auto& i : program) activations.see(i);
  out.activations = activations.most();
  return {out, activations.peak()};
}

}  // namespace convoy::parallel
