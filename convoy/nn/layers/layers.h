#pragma once

#include "convoy/nn/block.h"

// Shapes: B rows, T positions, D model width, V vocabulary.
namespace convoy::nn {

class TensorRanks;
struct Operand;

/// x [..., in] times the parameter, plus an optional bias [out].
/// `weight` is [in, out] as in GPT-2's Conv1D when `in_first`, else [out, in] as in
/// torch::nn::Linear. Dimensions behind the second count as one with it.
at::Tensor linear(const at::Tensor& x, const ParamPtr& weight, const ParamPtr& bias, bool in_first);

/// Product of linear() where `ranks` (nn/tensor_parallel/tensor_ranks.h) may split the weight. If
/// they split `in`: x is this rank's part of it, and the products are summed over the ranks. The
/// result is the whole sum or, where tokens are split, that of this rank's tokens, [n, out]. If
/// they split `out`: x comes from to_columns(), and the result is this rank's part.
at::Tensor linear(const Operand& x, const ParamPtr& weight, const ParamPtr& bias, bool in_first,
                  const TensorRanks& ranks);

inline at::Tensor linear(const at::Tensor& x, const DenseParams& dense) {
  return linear(x, dense.weight, dense.bias, false);
}
inline at::Tensor linear(const Operand& x, const DenseParams& dense, const TensorRanks& ranks) {
  return linear(x, dense.weight, dense.bias, false, ranks);
}

/// Rank whose part of a sum comes first.
enum class SumOrder { FirstToLast, LastToFirst };

/// linear() of one x with several weights [out, in]: one product on a GPU that has them side by
/// side (in the flat buffers: declared one after the other), and all of each of them. The results
/// are then views of one memory. Where the products are apart, `grads` is the order in which their
/// gradients of x are added up.
std::vector<at::Tensor> linears(const Operand& x, const std::vector<DenseParams>& all,
                                const TensorRanks& ranks, SumOrder grads = SumOrder::FirstToLast);

/// Rows of `table` [V, D] for ids [...] int64, as fp32. With `padding`, row 0 gets no gradient.
/// Ids must be in range: loaders check them against the schema.
at::Tensor embedding(const at::Tensor& ids, const ParamPtr& table, bool padding);

/// Rows of embedding() where `ranks` may split V. Where they split tokens, ids [B, T] are all of
/// them, and the result has the rows of this rank's, [n, D].
at::Tensor embedding(const at::Tensor& ids, const ParamPtr& table, bool padding,
                     const TensorRanks& ranks);

/// Ways to add rows to a table in an order that does not change from run to run.
enum class AddRows {
  Automatic,
  InPlace,   ///< one after the other: on the host
  OfATable,  ///< rows of one place are summed first, in a second table: on a GPU, where they would
             ///< else wait for each other
  BySums,    ///< equal bits from as many sums as there are rows: for a table with more rows, large
             ///< enough to be worth the sorting
};

/// Adds `scale` times `rows` [n, D] to the rows `places` [n] int64 of `table` [V, D].
void add_rows(at::Tensor table, const at::Tensor& places, const at::Tensor& rows, double scale = 1,
              AddRows how = AddRows::Automatic);

/// Values of a parameter, through which gradients reach it.
at::Tensor as_tensor(const ParamPtr& param);

/// x [..., D] plus the D elements of a parameter of any shape.
at::Tensor add_vector(const at::Tensor& x, const ParamPtr& vector);

/// x [B, T, D] plus the first T rows of `table` [positions, D].
at::Tensor add_positions(const at::Tensor& x, const ParamPtr& table);
/// Adds positions to x [B, T, D] or, where `ranks` split tokens, to this rank's x [n, D].
at::Tensor add_positions(const at::Tensor& x, const ParamPtr& table, const TensorRanks& ranks);

/// Readers of a normalisation's result. A result that only products read may come in bf16 where
/// they compute in bf16: on a GPU it does, and so does what is kept for backward.
enum class ReadBy { Anything, Products };

/// Layer normalisation over the last dimension; sums are fp32 whatever the compute dtype, and so is
/// the result unless only products read it.
at::Tensor layer_norm(const at::Tensor& x, const ParamPtr& weight, const ParamPtr& bias,
                      double epsilon, ReadBy reader = ReadBy::Anything);

inline at::Tensor layer_norm(const at::Tensor& x, const NormParams& norm, double epsilon,
                             ReadBy reader = ReadBy::Anything) {
  return layer_norm(x, norm.weight, norm.bias, epsilon, reader);
}

/// Factor of a normalised row: its weight, or one more, so that zeros leave the row as it is.
enum class RmsFactor { Weight, OneMore };

/// x / sqrt(mean(x^2) + epsilon) x weight over the last dimension (Zhang and Sennrich, 2019); sums
/// are fp32 whatever the compute dtype, and so is the result unless only products read it, and the
/// weight itself is the factor. Without a weight (null) the factor is 1.
at::Tensor rms_norm(const at::Tensor& x, const ParamPtr& weight, double epsilon,
                    ReadBy reader = ReadBy::Anything, RmsFactor factor = RmsFactor::Weight);

/// Returns the dtype in which a normalisation of x reads and writes rows.
inline at::ScalarType norm_dtype(const at::Tensor& x, const ParamPtr& weight, ReadBy reader) {
  const auto computed = weight ? weight->value().scalar_type() : x.scalar_type();
  const bool narrow = x.is_cuda() && reader == ReadBy::Products && computed == at::kBFloat16;
  return narrow ? at::kBFloat16 : at::kFloat;
}

/// x [..., D] with the rows where `mask` [...] bool is true replaced by `replacement` [D].
at::Tensor replace_rows(const at::Tensor& x, const at::Tensor& mask, const ParamPtr& replacement);

}  // namespace convoy::nn
