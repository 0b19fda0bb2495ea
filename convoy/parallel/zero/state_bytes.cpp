#include "convoy/parallel/zero/state_bytes.h"

#include "convoy/parallel/offload/place.h"
#include "convoy/parallel/zero/sharded_state.h"

namespace convoy::parallel {

namespace {

/// Bytes that a rank keeps of `bytes` of one kind of state.
double kept(Kind kind, int64_t bytes, const Mesh& mesh, const Parallelism& parallelism,
            const StepFacts& facts, bool of_expert = false) {
  if (place_of(kind, parallelism.offload, facts.low_precision) != Place::Device) return 0;
  const bool sharded = is_sharded_at(parallelism.stage_of_zero(), kind, facts.low_precision);
  const int holders = sharded ? mesh.degree(kState) : of_expert ? mesh.degree(Axis::Expert) : 1;
  return static_cast<double>(bytes) / holders;
}

}  // namespace

double bytes_of_frozen_parameter(const Mesh& mesh, const Parallelism& parallelism,
                                 const StepFacts& facts) {
  return kept(Kind::Weights, weight_bytes(facts.low_precision), mesh, parallelism, facts);
}

double state_bytes_of_parameter(const Mesh& mesh, const Parallelism& parallelism,
                                const StepFacts& facts, bool of_expert) {
  const auto of = [&](Kind kind, int64_t bytes) {
    return kept(kind, bytes, mesh, parallelism, facts, of_expert);
  };
  const double masters = facts.low_precision ? of(Kind::Masters, kMasterBytes) : 0;
  return of(Kind::Moments, facts.state_bytes) + of(Kind::Gradients, kGradientBytes) + masters +
         of(Kind::Weights, weight_bytes(facts.low_precision));
}

}  // namespace convoy::parallel
