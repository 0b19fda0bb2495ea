#pragma once

#include "convoy/nn/block.h"
#include "convoy/nn/losses/left_out.h"

// Shapes: N rows, D model width, V vocabulary with padding.
namespace convoy::nn {

// `tensor` ranks may share out the table's rows; all get the same.

/// Scores [N, V - first_id] of ids first_id..V-1 by `table` [V, D] (column c is id c + first_id),
/// without autograd. In fp32 whatever the dtypes: rounded scores tie, and ties flatter a ranking.
at::Tensor tied_scores(const at::Tensor& h, const ParamPtr& table, double temperature,
                       int64_t first_id = 1, const comm::Group& tensor = {});

/// Rank [N] int64 of each target's score among the ids first_id..V-1: 1 = best. Equal scores rank
/// by id. A score that is no number counts as better than every target. Ids of `left_out` do not
/// compete. Scores exist for a few rows at a time only.
at::Tensor tied_ranks(const at::Tensor& h, const ParamPtr& table, const at::Tensor& targets,
                      int64_t first_id = 1, const comm::Group& tensor = {},
                      const LeftOut& left_out = {});

/// Ranks of tied_ranks(), and the best ids of each row [N, k], best first; 0 where fewer compete.
struct RankedLists {
  at::Tensor ranks, ids;
};
RankedLists tied_lists(const at::Tensor& h, const ParamPtr& table, const at::Tensor& targets,
                       int64_t k, int64_t first_id = 1, const comm::Group& tensor = {},
                       const LeftOut& left_out = {});

/// Best columns of some rows, best first, and their scores [N, k].
struct BestColumns {
  at::Tensor scores, columns;
};

/// Finds the `k` best of scores [N, C] (all where there are fewer) in the order that tied_ranks()
/// counts in: by falling score, equal ones by column. A score that is no number comes first. Among
/// columns of -inf, which callers exclude, any may be left out.
BestColumns best_columns(const at::Tensor& scores, int64_t k);

}  // namespace convoy::nn
