#include "convoy/nn/delta/delta_chunks.h"

#include <ATen/ATen.h>

// Shapes as in the header.
namespace convoy::nn {

namespace {

at::Tensor turned(const at::Tensor& x) {
  return x.transpose(-1, -2);
}

/// Sums [..., C] of products of rows [..., C, E].
at::Tensor along(const at::Tensor& a, const at::Tensor& b) {
  return (a * b).sum(-1);
}

/// Factors by which positions of a chunk remember those before, [N, c, C, C]; zero above.
at::Tensor decay_of_pairs(const at::Tensor& grown) {
  return (grown.unsqueeze(3) - grown.unsqueeze(2)).tril_().exp_().tril_();
}

at::Tensor of_chunk(const at::Tensor& x, int64_t i) {
  return x.select(1, i);
}

}  // namespace

/// Rows of keys [n, c, C, E] times factors [N, c, C]: [N, c, C, E].
at::Tensor DeltaChunks::of_values(const at::Tensor& keys, const at::Tensor& factors) const {
  return (keys.unsqueeze(1) * by_key(factors).unsqueeze(-1)).flatten(0, 1);
}

DeltaChunks::DeltaChunks(const DeltaStretch& in)
    : in_(in), n_(in.q.size(0)), r_(in.v.size(0) / in.q.size(0)) {
  const auto logs = in.decay.cumsum(-1);
  const int64_t C = logs.size(-1);
  grown_ = logs.exp();
  left_ = (logs.narrow(-1, C - 1, 1) - logs).exp_();
  pairs_ = decay_of_pairs(logs);
  keys_ = at::matmul(in.k, turned(in.k));
  queries_ = at::matmul(in.q, turned(in.k));
  mix_ = (queries_.unsqueeze(1) * by_key(pairs_)).flatten(0, 1);
  auto system = (keys_.unsqueeze(1) * by_key(pairs_)).flatten(0, 1);
  system.mul_(in.beta.unsqueeze(-1));
  const auto ones = at::eye(C, system.options()).expand(system.sizes());
  inverse_ = at::linalg_solve_triangular(system, ones, /*upper=*/false, /*left=*/true,
                                         /*unitriangular=*/true);
  writes_ = at::matmul(inverse_, in.v * in.beta.unsqueeze(-1));
  reads_ = at::matmul(inverse_, of_values(in.k, in.beta * grown_));
  decayed_queries_ = of_values(in.q, grown_);
  decayed_keys_ = of_values(in.k, left_);
}

void DeltaChunks::scan(at::Tensor& state) {
  const int64_t c = in_.q.size(1), E = in_.q.size(3), V = in_.v.size(3);
  states_ = at::empty({n_ * r_, c, E, V}, state.options());
  news_ = at::empty_like(writes_);
  for (int64_t i = 0; i < c; ++i) {
    of_chunk(states_, i).copy_(state);
    const auto news = at::baddbmm(of_chunk(writes_, i), of_chunk(reads_, i), state, 1, -1);
    of_chunk(news_, i).copy_(news);
    const auto kept = state * of_chunk(grown_, i).narrow(1, grown_.size(2) - 1, 1).unsqueeze(2);
    state = at::baddbmm(kept, turned(of_chunk(decayed_keys_, i)), news);
  }
}

at::Tensor DeltaChunks::heard() const {
  return at::matmul(decayed_queries_, states_).add_(at::matmul(mix_, news_));
}

DeltaStretch DeltaChunks::backward(const at::Tensor& grad, at::Tensor& state) const {
  const int64_t c = in_.q.size(1), C = in_.q.size(2);
  // Gradients of what each chunk wrote, and of the state behind it.
  auto of_news = at::matmul(turned(mix_), grad);
  const auto of_reads = at::matmul(turned(decayed_queries_), grad);
  auto behind = at::empty_like(states_);
  const auto whole = grown_.narrow(2, C - 1, 1).unsqueeze(3);  // [N, c, 1, 1]
  for (int64_t i = c - 1; i >= 0; --i) {
    of_chunk(behind, i).copy_(state);
    const auto news = at::baddbmm(of_chunk(of_news, i), of_chunk(decayed_keys_, i), state);
    of_chunk(of_news, i).copy_(news);
    const auto kept = of_chunk(of_reads, i) + state * of_chunk(whole, i);
    state = at::baddbmm(kept, turned(of_chunk(reads_, i)), news, 1, -1);
  }
  const auto upright = turned(inverse_);
  const auto of_values_in = at::matmul(upright, of_news);
  const auto of_states = turned(states_);
  const auto of_keys_in = at::matmul(upright, at::matmul(of_news, of_states)).neg_();
  // The system's own gradient, strictly below the diagonal; the decay of pairs is in it.
  auto of_system = at::matmul(of_values_in, turned(writes_));
  of_system.add_(at::matmul(of_keys_in, turned(reads_))).neg_().tril_(-1).mul_(pairs_);
  const auto of_mix = at::matmul(grad, turned(news_)).mul_(pairs_);
  const auto of_queries = at::matmul(grad, of_states);
  const auto of_decayed_keys = at::matmul(news_, turned(behind));

  const auto by_keys = (by_key(of_system) * keys_.unsqueeze(1)).flatten(0, 1);
  const auto of_logs_of_system = by_keys * in_.beta.unsqueeze(-1);
  const auto of_logs_of_mix = (by_key(of_mix) * queries_.unsqueeze(1)).flatten(0, 1);
  const auto with_keys = [&](const at::Tensor& x) {
    return (by_key(x) * in_.k.unsqueeze(1)).flatten(0, 1).sum(-1);
  };
  const auto of_reading = with_keys(of_keys_in) * grown_;
  const auto of_leaving = with_keys(of_decayed_keys) * left_;
  const auto of_asking = along(of_queries, decayed_queries_);

  DeltaStretch out;
  out.beta = by_keys.sum(-1).add_(along(of_values_in, in_.v)).add_(of_reading);
  const auto of_pairs = of_logs_of_system + of_logs_of_mix;
  // Sums over a chunk cancel, so they are taken in double.
  auto logs = of_pairs.sum(-1, false, at::kDouble) - of_pairs.sum(-2, false, at::kDouble);
  logs.add_(of_reading * in_.beta).add_(of_asking).sub_(of_leaving);
  auto last = of_leaving.sum(-1, false, at::kDouble);
  last.add_((states_ * behind).sum({2, 3}) * grown_.select(2, C - 1));
  logs.select(2, C - 1).add_(last);
  out.decay = logs.flip({-1}).cumsum(-1).flip({-1}).to(at::kFloat);
  out.v = of_values_in * in_.beta.unsqueeze(-1);

  const auto of_key_pairs = over_values(of_system * in_.beta.unsqueeze(-1));
  const auto of_query_pairs = over_values(of_mix);
  out.q = at::matmul(of_query_pairs, in_.k);
  out.q.add_(over_values(of_queries * grown_.unsqueeze(-1)));
  out.k = at::matmul(of_key_pairs + turned(of_key_pairs), in_.k);
  out.k.add_(at::matmul(turned(of_query_pairs), in_.q));
  auto more = of_keys_in * (in_.beta * grown_).unsqueeze(-1);
  more.add_(of_decayed_keys * left_.unsqueeze(-1));
  out.k.add_(over_values(more));
  return out;
}

}  // namespace convoy::nn
