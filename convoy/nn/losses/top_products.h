#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <vector>

// Shapes: N rows, C columns to choose among, K terms of a product.
namespace convoy::nn {

/// Columns that one row asks for.
struct TopQuery {
  int64_t k = 0;  ///< at most so many
  /// Columns to choose among, ascending, each once; none: all but `left_out`.
  std::optional<std::vector<int64_t>> among = {};
  std::vector<int64_t> left_out = {};  ///< ascending
};

/// Best columns of a row, best first, with their scores. None has -inf.
struct TopColumns {
  std::vector<float> scores;
  std::vector<int64_t> columns;
};

/// Finds for each row of x [N, K] the columns c with the largest products with rows c of `table`
/// [C, K], over `temperature`, in the order of best_columns(): equal ones by column, a score that
/// is no number first. All are fp32, without autograd. `left_out`: ascending columns that no row
/// has, unless its query names it.
///
/// Scores are computed some thousand columns at a time, and those of few `among` alone. On
/// processors with AVX-512 and where K is a multiple of 16, scores of up to 16 rows are the same to
/// the bit whatever the columns to choose among and the other rows; else they differ by rounding.
std::vector<TopColumns> top_products(const at::Tensor& x, const at::Tensor& table,
                                     double temperature, const std::vector<TopQuery>& queries,
                                     const std::vector<int64_t>& left_out = {});

}  // namespace convoy::nn
