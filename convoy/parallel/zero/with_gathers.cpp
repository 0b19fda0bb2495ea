#include <algorithm>
#include <map>
#include <utility>

#include "convoy/parallel/program/insertions.h"
#include "convoy/parallel/zero/least_gathers.h"

namespace convoy::parallel {

namespace {

/// Range of a program over which a bucket stays gathered, by positions of its first and last
/// reader.
struct Stay {
  int64_t bucket;
  int64_t micro_batch;
  bool forward;  ///< its last reader is one
  size_t first, last;
  size_t earliest;   ///< position at which it may be gathered
  size_t num_stays;  ///< of all buckets, up to its last reader
};

}  // namespace

const std::vector<int64_t>& reads(const Instruction& i, const Layout& layout) {
  static const std::vector<int64_t> kNone;
  if (i.op == Op::Forward || i.op == Op::Recompute) return layout.buckets_of_block(i.block);
  // The second half of a backward multiplies inputs with gradients only.
  const bool backward = i.op == Op::Backward || i.op == Op::BackwardInput;
  return backward ? layout.buckets_of_backward(i.block) : kNone;
}

Program with_gathers(Program program, const Layout& layout, const StepOptions& options) {
  if (!layout.is_sharded(Kind::Weights)) return program;
  const auto ahead = static_cast<size_t>(options.parallelism.gathers.prefetch);
  std::vector<Stay> stays;
  std::map<int64_t, size_t> current;  // [bucket] its newest stay
  for (size_t at = 0; at < program.size(); ++at) {
    const bool forward = program[at].op == Op::Forward;
    for (const int64_t bucket : reads(program[at], layout)) {
      if (!layout.is_sharded(Kind::Weights, bucket)) continue;
      size_t earliest = 0;
      if (const auto known = current.find(bucket); known != current.end()) {
        auto& stay = stays[known->second];
        // A bucket that the last block reads, too (a tied table), stays gathered: memory peaks
        // there anyway.
        const bool kept =
            stay.micro_batch == program[at].micro_batch &&
            ((forward && stay.forward) || !options.parallelism.gathers.reshard_after_forward);
        // Released now, it would be gathered ahead at once.
        if (kept || stays.size() - stay.num_stays <= ahead) {
          stay.last = at;
          stay.forward = forward;
          stay.num_stays = stays.size();
          continue;
        }
        earliest = stay.last + 1;
      }
      current[bucket] = stays.size();
      stays.push_back(
          {bucket, program[at].micro_batch, forward, at, at, earliest, stays.size() + 1});
    }
  }
  Insertions insertions;
  for (size_t n = 0; n < stays.size(); ++n) {
    const auto& stay = stays[n];
    const size_t wanted = n < ahead ? 0 : stays[n - ahead].first;
    insertions.take(std::max(wanted, stay.earliest), {.op = Op::Gather, .bucket = stay.bucket});
    insertions.give(stay.last + 1, {.op = Op::Release, .bucket = stay.bucket});
  }
  return insertions.into(std::move(program));
}

LeastGathers least_gathers(const Parallelism& parallelism, double elements, double read_in_backward,
                           double largest_block) {
  // Buckets stay gathered where forward turns into backward, and backward into the next forward.
  const double largest_bucket =
      largest_block + static_cast<double>(parallelism.bucket_bytes) / sizeof(float);
  const double kept = static_cast<double>(parallelism.gathers.prefetch + 1) * largest_bucket;
  if (parallelism.gathers.reshard_after_forward) {
    return {parallelism.micro_batches, elements + read_in_backward - 2 * kept};
  }
  // Weights that stay until backward stay for the next micro-batch, too.
  return {1, elements - kept};
}

int64_t most_gathered(const Program& program, const Layout& layout) {
  int64_t now = 0, most = 0;
  for (const auto& i : program) {
    if (i.op != Op::Gather && i.op != Op::Release) continue;
    if (!layout.is_sharded(Kind::Weights, i.bucket)) continue;
    const int64_t length = layout.buckets()[static_cast<size_t>(i.bucket)].all.length();
    now += i.op == Op::Gather ? length : -length;
    most = std::max(most, now);
  }
  return most;
}

}  // namespace convoy::parallel
