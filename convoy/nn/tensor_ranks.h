#pragma once

#include <string>

#include "convoy/nn/block.h"

// What layers do with a weight that tensor ranks share out (Shoeybi et al., 2019). A rank that has
// some of its columns (of what the product gives) reads the whole input and computes some of the
// output; one that has some of its rows reads some of the input and computes a part of a sum. So
// what goes in is whole, is cut between two products, and comes out whole. On one rank nothing is
// done.
namespace convoy::nn {

/// Whether these ranks share out a parameter, along any dimension or along `dim`.
inline bool is_cut(const ParamPtr& param, const comm::Group& tensor) {
  return tensor.size() > 1 && param->spec().cut.dim >= 0;
}
inline bool is_cut(const ParamPtr& param, int64_t dim, const comm::Group& tensor) {
  return is_cut(param, tensor) && param->spec().cut.dim == dim;
}

/// What a collective of a weight is for: "rows of transformer.h.3.mlp.c_proj".
std::string label_of(const char* what, const ParamPtr& weight);

/// `x` for the products with a weight whose columns are shared out, and with all beside it that
/// read the same: what reaches it on all ranks is added up in one sum in backward.
at::Tensor to_columns(const at::Tensor& x, const ParamPtr& weight, const comm::Group& tensor);

/// What a rank knows of the gradient g [N, columns here] of a product, with what the others add
/// where several have the same columns.
at::Tensor with_overlaps(const at::Tensor& g, const ParamPtr& weight, const comm::Group& tensor);

/// Columns of all ranks, of x [N, columns here] by the stretches of `weight` along `dim`, less
/// those before `first`; without autograd.
at::Tensor gather_columns(const at::Tensor& x, const ParamPtr& weight, int64_t dim,
                          const comm::Group& tensor, int64_t first = 0);

}  // namespace convoy::nn
