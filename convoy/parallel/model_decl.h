#pragma once

#include <optional>
#include <string>
#include <vector>

#include "convoy/parallel/layout.h"

namespace convoy::parallel {

/// A parameter before any memory exists.
struct ParamDecl {
  std::string name;
  Shape shape;  ///< global
  TensorCut cut = {};
  bool decays = true;  ///< by weight decay
  bool trained = true;
  bool read_in_backward = true;  ///< false: no backward asks for the value (tables, biases)
  bool of_module = false;        ///< of a user's module, which keeps fp32 weights and casts itself
  std::optional<RowReads> row_reads = {};  ///< of a table that can be kept by rows
};

/// A block: which parameters it reads, as indices into ModelDecl::params, in its own order.
struct BlockDecl {
  std::string name;
  std::vector<int64_t> params;
  bool repeatable = true;                ///< its forward can be run again
  bool takes_tensor_ranks = false;       ///< computes with a tensor rank's part of its parameters
  bool takes_sequence_parallel = false;  ///< computes with a tensor rank's part of the tokens
  bool takes_context_ranks = false;      ///< computes with some positions of rows
  int64_t experts_per_token = 0;         ///< that a token is sent to; 0: the block has none
};

/// Declaration of a model to plan its training (nn::declare makes it).
struct ModelDecl {
  std::vector<ParamDecl> params;  ///< each once, in the order of the blocks that read them
  std::vector<BlockDecl> blocks;

  bool has_modules() const;
};

/// Parameters that are gathered, reduced and updated at once, those that decay first.
struct UnitDecl {
  std::string name;
  std::vector<int64_t> params;  ///< indices into ModelDecl::params
};

/// A model's parameters by unit: each block's own are one, those of it that are not trained
/// another, its experts one more where they lie apart, and a parameter that several blocks read is
/// one of its own.
struct Units {
  std::vector<UnitDecl> units;
  ModelTable table;
  std::vector<std::vector<ParamShape>> shapes;  ///< by unit
};

/// Groups a model's parameters in units. `experts_apart`: for ranks that deal out experts. Throws
/// UsageError where two parameters have one name.
Units units_of(const ModelDecl& model, bool experts_apart = false);
/// Number of experts of each layer that has some: their greatest common divisor; 0: none has.
int64_t common_experts(const ModelDecl& model);

/// Cost of each block: the elements of the matrices that it multiplies with. Tables that are only
/// looked up cost nothing; a matrix that several blocks read counts for the last, which multiplies.
std::vector<double> block_costs(const ModelDecl& model);

}  // namespace convoy::parallel
