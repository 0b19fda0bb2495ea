#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <limits>

#include "convoy/comm/device.h"
#include "convoy/comm/to_host.h"
#include "convoy/nn/losses/left_out.h"
#include "convoy/parallel/row_tables/torch/row_table.h"

namespace convoy::parallel {

/// States and targets of all ranks, in their order, padded with zeros to equal numbers.
struct RowTable::Asked {
  at::Tensor states;   // [M, D]
  at::Tensor targets;  // [M] int64
  int64_t here = 0;    // of this rank
  int64_t each = 0;    // of every rank, filled up
  int64_t first = 0;   // lowest id that competes
  nn::LeftOut left_out;
};

struct RowTable::Scores {
  at::Tensor better;     // [M] int64: own rows that score higher
  at::Tensor logsumexp;  // [M] of own rows' scores
};

RowTable::Asked RowTable::ask(const nn::Bundle& out) const {
  Asked asked;
  const auto states = out.find("row_states");
  const bool has_rows = states != out.end();
  const auto given = [&](const char* name) {
    const auto found = out.find(name);
    return found == out.end() ? at::Tensor() : found->second;
  };
  const auto unseen = given("row_unseen"), excluded = given("row_excluded");
  const int64_t num_unseen = unseen.defined() ? unseen.size(0) : 0;
  const int64_t num_excluded = excluded.defined() ? excluded.size(1) : 0;
  if (has_rows) {
    asked.here = states->second.size(0);
    asked.first = comm::item<int64_t>(out.at("row_first").to(at::kLong));
  }
  const auto told = comm::download(ranks_.all_gather(
      on_device({asked.here, asked.first, num_unseen, num_excluded}), "count states to rank"));
  asked.each = comm::item<int64_t>(told.select(1, 0).max());
  asked.first = comm::item<int64_t>(told.select(1, 1).max());
  auto own = at::zeros({asked.each, width_}, state_.weights.options());
  auto targets = at::zeros({asked.each}, own.options().dtype(at::kLong));
  if (has_rows) {
    own.narrow(0, 0, asked.here).copy_(states->second);
    targets.narrow(0, 0, asked.here).copy_(out.at("row_targets"));
  }
  asked.states = ranks_.all_gather(own, "states to rank").view({-1, width_});
  asked.targets = ranks_.all_gather(targets, "targets to rank").view({-1});
  // A rank without targets scores those of others, but has not been told what they leave out.
  if (const auto most = comm::item<int64_t>(told.select(1, 2).max()); most > 0) {
    auto ids = unseen.defined() ? unseen : at::zeros({most}, targets.options());
    asked.left_out.ids =
        std::get<0>(ranks_.all_gather(ids, "unseen items").view({-1, most}).max(0));
  }
  if (const auto most = comm::item<int64_t>(told.select(1, 3).max()); most > 0) {
    auto ids = at::zeros({asked.each, most}, targets.options());
    if (excluded.defined()) {
      ids.narrow(0, 0, asked.here).narrow(1, 0, num_excluded).copy_(excluded);
    }
    asked.left_out.of_rows = ranks_.all_gather(ids, "items left out").view({-1, most});
  }
  return asked;
}

/// Scores [M] of the targets, each from the rank that owns its row.
at::Tensor RowTable::target_scores(const Asked& asked) const {
  auto scores = at::zeros({asked.targets.size(0)}, state_.weights.options());
  const int64_t rows = state_.weights.size(0);
  if (rows > 0) {
    const auto elsewhere = asked.targets.remainder(ranks_.size()) != ranks_.rank();
    const auto index = asked.targets.div(ranks_.size(), "floor").masked_fill_(elsewhere, 0);
    const auto items = rounded(state_.weights.index_select(0, index));
    scores = (asked.states * items).sum(1).masked_fill_(elsewhere, 0);
  }
  ranks_.all_reduce(scores, comm::ReduceOp::Sum, "targets' scores");
  return scores;
}

/// Scores this rank's rows, a cache's worth of scores at a time.
RowTable::Scores RowTable::score_own(const Asked& asked, const at::Tensor& own) const {
  constexpr int64_t kScores = 1 << 20, kFewest = 256;
  const int64_t count = asked.states.size(0), rows = state_.weights.size(0);
  const int64_t num_ranks = ranks_.size(), rank = ranks_.rank();
  const int64_t most = std::max(kFewest, kScores / count);
  const auto target = asked.targets.unsqueeze(1), wanted = own.unsqueeze(1);
  Scores out{at::zeros({count}, asked.targets.options()), {}};
  std::vector<at::Tensor> sums{
      at::full({count}, -std::numeric_limits<float>::infinity(), own.options())};
  int64_t begin = std::max<int64_t>(0, (asked.first - rank + num_ranks - 1) / num_ranks);
  for (; begin < rows; begin += most) {
    const int64_t some = std::min(most, rows - begin);
    const auto items = rounded(state_.weights.narrow(0, begin, some));
    auto scores = at::mm(asked.states, items.t());
    sums.push_back(at::logsumexp(scores, 1));  // the loss is over all
    asked.left_out.mask(scores, begin * num_ranks + rank, num_ranks);
    const auto ids = at::arange(begin, begin + some, target.options()) * num_ranks + rank;
    // A NaN score must count as better, hence not (scores > wanted). Equal scores rank by id. The
    // target's own score comes from another product and does not compete.
    const auto better = (scores <= wanted).logical_not_().logical_and_(ids != target);
    const auto before = (scores == wanted).logical_and_(ids < target);
    out.better.add_(better.logical_or_(before).sum(1));
  }
  out.logsumexp = at::logsumexp(at::stack(sums), 0);
  return out;
}

void RowTable::score(nn::Bundle& out) {
  const at::NoGradGuard no_grad;
  make_up();
  const auto asked = ask(out);
  if (asked.each > 0) {
    const auto wanted = target_scores(asked);
    const auto own = score_own(asked, wanted);
    ranks_.all_reduce(own.better, comm::ReduceOp::Sum, "better scores");
    const auto whole = at::logsumexp(ranks_.all_gather(own.logsumexp, "sums of scores"), 0);
    const auto of_rank = [&](const at::Tensor& all) {
      return all.narrow(0, ranks_.rank() * asked.each, asked.here);
    };
    if (!out.empty()) {
      out["loss"] =
          out.at("loss") + of_rank(whole - wanted).sum() * comm::item<double>(out.at("row_weight"));
      const auto ranks = asked.left_out.without_rank(own.better + 1, asked.targets);
      out["target_rank"] = of_rank(ranks);
    }
  } else if (!out.empty()) {
    out["target_rank"] = asked.targets;
  }
  for (const char* name :
       {"row_states", "row_targets", "row_first", "row_weight", "row_unseen", "row_excluded"}) {
    out.erase(name);
  }
}

}  // namespace convoy::parallel
