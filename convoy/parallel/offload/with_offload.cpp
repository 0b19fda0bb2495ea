#include <algorithm>
#include <map>
#include <utility>

#include "convoy/parallel/parallelism.h"
#include "convoy/parallel/program/insertions.h"

namespace convoy::parallel {

namespace {

Instruction fetch(Kind kind, int64_t bucket) {
  return {.op = Op::Fetch, .bucket = bucket, .kind = kind};
}

Instruction store(Kind kind, int64_t bucket, int64_t micro_batch = -1) {
  return {.op = Op::Store, .bucket = bucket, .micro_batch = micro_batch, .kind = kind};
}

/// Fetches a bucket's part when the gather before it starts.
void around_gathers(const Program& program, Insertions& insertions) {
  size_t before = 0;
  int64_t last = -1;
  for (size_t at = 0; at < program.size(); ++at) {
    if (program[at].op != Op::Gather) continue;
    const int64_t bucket = program[at].bucket;
    insertions.take(bucket == last ? before + 1 : before, fetch(Kind::Weights, bucket));
    before = at;
    last = bucket;
  }
}

/// Stores a reduced gradient when the next reduction starts, while backward goes on.
void around_reductions(const Program& program, Insertions& insertions) {
  std::map<int64_t, size_t> stored;  // [bucket] position
  size_t before = 0;                 // the reduction before, or the loss
  int64_t last = -1, micro_batch = -1;
  for (size_t at = 0; at < program.size(); ++at) {
    const auto& i = program[at];
    if (i.op == Op::Loss) before = at;
    if (i.op != Op::ReduceScatter && i.op != Op::ReduceLoss) continue;
    if (last >= 0) {
      insertions.give(stored[last] = at, store(Kind::Gradients, last, micro_batch));
    }
    if (i.op == Op::ReduceLoss) break;
    if (const auto found = stored.find(i.bucket); found != stored.end()) {
      insertions.take(std::max(before, found->second), fetch(Kind::Gradients, i.bucket));
    }
    before = at;
    last = i.bucket;
    micro_batch = i.micro_batch;
  }
}

/// Fetches the first bucket's state while the ranks reduce the norm, and each other one's a bucket
/// ahead.
void around_updates(const Program& program, const Layout& layout, Insertions& insertions) {
  const auto kinds = offloaded_in_update(layout);
  if (kinds.empty()) return;
  size_t before = 0;
  for (size_t at = 0; at < program.size(); ++at) {
    const auto& i = program[at];
    if (i.op == Op::ReduceLoss) before = at;
    if (i.op != Op::Update) continue;
    for (const Kind kind : kinds) {
      insertions.take(before, fetch(kind, i.bucket));
      if (kind != Kind::Gradients) insertions.give(at + 1, store(kind, i.bucket));
    }
    before = at;
  }
}

}  // namespace

const char* name_of(Place place) {
  return place == Place::Device ? "none" : place == Place::Cpu ? "cpu" : "disk";
}

std::vector<Kind> offloaded_in_update(const Layout& layout) {
  std::vector<Kind> out;
  for (const Kind kind : {Kind::Weights, Kind::Masters, Kind::Gradients, Kind::Moments}) {
    const bool is_weights = kind == Kind::Masters && !layout.options().low_precision;
    if (layout.offloaded(kind) && !is_weights) out.push_back(kind);
  }
  return out;
}

Program with_offload(Program program, const Layout& layout) {
  Insertions insertions;
  if (layout.offloaded(Kind::Weights)) around_gathers(program, insertions);
  if (layout.offloaded(Kind::Gradients)) around_reductions(program, insertions);
  around_updates(program, layout, insertions);
  return insertions.into(std::move(program));
}

}  // namespace convoy::parallel
