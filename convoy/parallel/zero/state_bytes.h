#pragma once

#include "convoy/parallel/mesh.h"
#include "convoy/parallel/step_facts.h"

namespace convoy::parallel {

/// Bytes of state that each rank keeps of a trained parameter on average, before a model is known:
/// weight, master, gradient and the optimizer's state, by the stage of ZeRO and what is offloaded.
/// `of_expert`: of a parameter of an expert, which one of the expert ranks has.
double state_bytes_of_parameter(const Mesh& mesh, const Parallelism& parallelism,
                                const StepFacts& facts, bool of_expert = false);

/// Bytes of the weight alone, for a frozen parameter.
double bytes_of_frozen_parameter(const Mesh& mesh, const Parallelism& parallelism,
                                 const StepFacts& facts);

}  // namespace convoy::parallel
