#pragma once

#include <string>
#include <vector>

#include "convoy/nn/experts/expert_rows.h"
#include "convoy/nn/experts/routing.h"
#include "convoy/nn/tensor_parallel/tensor_ranks.h"

// Mixture of experts (Shazeer et al., 2017): many feed-forward layers, of which each token is sent
// to a few. Shapes: N tokens of width D, F width of an expert.
namespace convoy::nn {

/// Matrices of an expert: gate and up [F, D], down [D, F].
struct ExpertParams {
  ParamPtr gate, up, down;
};

/// Matrices and biases of all experts, as gpt-oss has them. Columns of gate and up take turns.
struct ExpertStacks {
  ParamPtr gate_up, gate_up_bias;  ///< [E, D, 2F] and [E, 2F]
  ParamPtr down, down_bias;        ///< [E, F, D] and [E, D]
  double slope = 1.702;            ///< factor of the gate in its sigmoid
  double limit = 7;                ///< gate is at most this, up at most this far from 0
};

/// Sum over the experts of each token of x [..., D]: the routing's weight times
/// down(activation(gate x) up x). `routing` is of the tokens that this rank has. Where tensor ranks
/// split F, x comes from to_columns() with a gate, and the result is the whole sum or, where tokens
/// are split, that of this rank's tokens, [n, D]. `dealt`: ranks with other tokens, each of which
/// has as many experts; all call it as often, with any number of tokens.
at::Tensor experts(const Operand& x, const Routing& routing, const std::vector<ExpertParams>& all,
                   const std::string& activation, const TensorRanks& ranks,
                   const ExpertRanks& dealt = {});

/// Like the above, with biases, and gate sigmoid(slope gate) (up + 1) for what is inside.
at::Tensor experts(const Operand& x, const Routing& routing, const ExpertStacks& all,
                   const TensorRanks& ranks, const ExpertRanks& dealt = {});

}  // namespace convoy::nn
