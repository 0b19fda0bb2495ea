#include "convoy/nn/attention/ring_attention.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <limits>
#include <memory>
#include <utility>

#include "convoy/nn/layers/dropout.h"
#include "convoy/nn/node.h"

// Shapes: B rows, t positions that are here, H heads, K key heads, G = H / K, E width of a head; of
// a pair of stretches n queries and S keys, of a piece of it R rows.
namespace convoy::nn {

namespace {

constexpr float kUnseen = -std::numeric_limits<float>::infinity();

/// Range of queries of this rank with a range of keys of another, and their offsets in what each
/// rank has.
struct Pair {
  PositionRange queries, keys;
  int64_t query_at = 0, key_at = 0;
  bool diagonal = false;  ///< of the same positions, where those behind are not seen
};

/// Returns exp(x - log_sum); 0 where no key was visible.
at::Tensor exponentials(const at::Tensor& x, const at::Tensor& log_sum) {
  return at::exp(x - log_sum.masked_fill(log_sum == kUnseen, 0));
}

class Ring {
 public:
  Ring(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
       const AttentionOptions& options, double scale, const Context& context)
      : q_(q.detach()),
        k_(k.detach()),
        v_(v.detach()),
        options_(options),
        context_(context),
        ranks_(options.ranks),
        group_(ranks_.group()),
        scale_(scale),
        B_(q.size(0)),
        H_(q.size(1)),
        K_(k.size(1)),
        E_(q.size(3)),
        fused_(q.is_cpu() && !options.key_mask.defined() &&
               (options.dropout == 0 || context.mode != Mode::Train)) {}

  at::Tensor forward() {
    const auto fp32 = q_.options().dtype(at::kFloat);
    // Heads of a position lie side by side: layers read a row of them without a copy.
    out_ = at::zeros({B_, q_.size(2), H_, E_}, fp32).transpose(1, 2);
    log_sums_ = at::full({B_, H_, q_.size(2)}, kUnseen, fp32);
    go_round([&](int source, const at::Tensor& k, const at::Tensor& v) {
      for (const auto& pair : pairs_with(source)) attend(pair, k, v);
    });
    out_ = out_.to(q_.scalar_type());
    return out_.detach();  // the graph holds this ring
  }

  /// Gradients of the inputs, from the gradient of the `out` that forward() returned.
  std::vector<at::Tensor> backward(const at::Tensor& grad) {
    const auto fp32 = q_.options().dtype(at::kFloat);
    grad_ = grad.to(q_.scalar_type()).contiguous();
    slopes_ = (grad_.to(at::kFloat) * out_.to(at::kFloat)).sum(-1, true);
    dq_ = at::zeros(q_.sizes(), fp32);
    // The summed gradients of a rank's keys and values travel round the ring behind them, and end
    // at their rank.
    at::Tensor sum, coming;
    comm::Group::Handle under_way;
    go_round([&](int source, const at::Tensor& k, const at::Tensor& v) {
      auto here = at::zeros({message_size(source)}, fp32);
      const auto [dk, dv] = unpacked(here, source);
      for (const auto& pair : pairs_with(source)) add_grads(pair, k, v, dk, dv);
      group_.wait(under_way);
      if (coming.defined()) here.add_(coming);
      sum = here;
      coming = at::empty({message_size(before(source))}, fp32);
      under_way = start(sum, coming, "gradients of keys and values");
    });
    group_.wait(under_way);
    const auto [dk, dv] = unpacked(coming, group_.rank());
    return {dq_.to(q_.scalar_type()), dk.to(k_.scalar_type()), dv.to(v_.scalar_type())};
  }

 private:
  int before(int rank) const { return (rank + group_.size() - 1) % group_.size(); }

  /// Number of elements of a rank's keys and values; at least one, as messages are never empty.
  int64_t message_size(int rank) const {
    return std::max<int64_t>(1, 2 * B_ * K_ * ranks_.size(rank) * E_);
  }
  std::pair<at::Tensor, at::Tensor> unpacked(const at::Tensor& message, int source) const {
    const auto both = message.narrow(0, 0, 2 * B_ * K_ * ranks_.size(source) * E_)
                          .view({2, B_, K_, ranks_.size(source), E_});
    return {both[0], both[1]};
  }
  comm::Group::Handle start(const at::Tensor& out, const at::Tensor& in, const char* what) const {
    return group_.start_send_receive(out, (group_.rank() + 1) % group_.size(), in,
                                     before(group_.rank()),
                                     std::string(what).append(" of ").append(options_.name));
  }

  /// Calls `use` with the keys and values of each rank, its own first, while the next ones come.
  template <class Use>
  void go_round(const Use& use) const {
    int source = group_.rank();
    auto here = at::zeros({message_size(source)}, k_.options());
    const auto [k, v] = unpacked(here, source);
    k.copy_(k_), v.copy_(v_);
    for (int step = 0; step < group_.size(); ++step) {
      const bool last = step + 1 == group_.size();
      auto next = last ? at::Tensor() : at::empty({message_size(before(source))}, k_.options());
      auto coming = last ? comm::Group::Handle() : start(here, next, "keys and values");
      const auto [keys, values] = unpacked(here, source);
      use(source, keys, values);
      group_.wait(coming);
      here = next;
      source = before(source);
    }
  }

  /// Pairs of ranges in which queries see keys of rank `source`.
  std::vector<Pair> pairs_with(int source) const {
    std::vector<Pair> out;
    const auto own = ranks_.stretches(), others = ranks_.stretches(source);
    int64_t query_at = 0;
    for (const auto& queries : own) {
      int64_t key_at = 0;
      for (const auto& keys : others) {
        const bool behind = options_.causal && keys.begin > queries.begin;
        const bool same = options_.causal && keys.begin == queries.begin;
        if (!behind && queries.length > 0 && keys.length > 0) {
          out.push_back({queries, keys, query_at, key_at, same});
        }
        key_at += keys.length;
      }
      query_at += queries.length;
    }
    return out;
  }

  static at::Tensor queries(const at::Tensor& x, const Pair& pair) {
    return x.narrow(2, pair.query_at, pair.queries.length);
  }
  static at::Tensor keys(const at::Tensor& x, const Pair& pair) {
    return x.narrow(2, pair.key_at, pair.keys.length);
  }
  /// Views [R, H, n, any] as [R, K, G x n, any].
  at::Tensor grouped(const at::Tensor& x) const {
    return x.reshape({x.size(0), K_, H_ / K_ * x.size(2), x.size(3)});
  }
  /// Returns every G-th head from head g on, of x [B, H, ...].
  at::Tensor group_of(const at::Tensor& x, int64_t g) const {
    return x.unflatten(1, {K_, H_ / K_}).select(2, g);
  }

  void join(const at::Tensor& out, const at::Tensor& log_sums, const at::Tensor& more,
            const at::Tensor& more_sums) const {
    const auto both = at::logaddexp(log_sums, more_sums);
    out.mul_(exponentials(log_sums, both).unsqueeze(-1));
    out.add_(more * exponentials(more_sums, both).unsqueeze(-1));
    log_sums.copy_(both);
  }

  void attend(const Pair& pair, const at::Tensor& k, const at::Tensor& v) const {
    const auto out = queries(out_, pair), log_sums = queries(log_sums_, pair);
    if (fused_) {
      for (int64_t g = 0; g < H_ / K_; ++g) {
        const auto [more, sums] = at::_scaled_dot_product_flash_attention_for_cpu(
            group_of(queries(q_, pair), g), keys(k, pair), keys(v, pair), 0.0, pair.diagonal, {},
            scale_);
        join(group_of(out, g), group_of(log_sums, g), more, sums);
      }
      return;
    }
    each_piece(pair, [&](int64_t row, int64_t R, int64_t query, int64_t n) {
      const auto piece = [&](const at::Tensor& x) {
        return x.narrow(0, row, R).narrow(2, query, n);
      };
      const auto scores = scores_of(pair, k, row, R, query, n);
      const auto sums = at::logsumexp(scores, -1);
      const auto weights = exponentials(scores, sums.unsqueeze(-1));
      const auto mixed = at::matmul(grouped(dropped(weights, pair, row, R, query, n)),
                                    keys(v, pair).narrow(0, row, R));
      join(piece(out), piece(log_sums), mixed.view({R, H_, n, E_}).to(at::kFloat), sums);
    });
  }

  void add_grads(const Pair& pair, const at::Tensor& k, const at::Tensor& v, const at::Tensor& dk,
                 const at::Tensor& dv) const {
    const auto dq = queries(dq_, pair);
    const auto dk_here = keys(dk, pair), dv_here = keys(dv, pair);
    if (fused_) {
      for (int64_t g = 0; g < H_ / K_; ++g) {
        const auto of = [&](const at::Tensor& x) { return group_of(queries(x, pair), g); };
        const auto [gq, gk, gv] = at::_scaled_dot_product_flash_attention_for_cpu_backward(
            of(grad_), of(q_), keys(k, pair), keys(v, pair), of(out_), of(log_sums_), 0.0,
            pair.diagonal, {}, scale_);
        of(dq_).add_(gq);
        dk_here.add_(gk);
        dv_here.add_(gv);
      }
      return;
    }
    each_piece(pair, [&](int64_t row, int64_t R, int64_t query, int64_t n) {
      const auto piece = [&](const at::Tensor& x) {
        return queries(x, pair).narrow(0, row, R).narrow(2, query, n);
      };
      const auto rows = [&](const at::Tensor& x) { return x.narrow(0, row, R); };
      const auto weights =
          exponentials(scores_of(pair, k, row, R, query, n), piece(log_sums_.unsqueeze(-1)));
      const auto mask = mask_of(pair, row, R, query, n);
      const auto g = grouped(piece(grad_));
      const auto kept = (mask.defined() ? weights * mask : weights).to(v.scalar_type());
      rows(dv_here).add_(at::matmul(grouped(kept).transpose(2, 3), g));
      auto slope = at::matmul(g, rows(keys(v, pair)).transpose(2, 3)).to(at::kFloat);
      slope = slope.view(weights.sizes());
      if (mask.defined()) slope.mul_(mask);
      slope.sub_(piece(slopes_)).mul_(weights).mul_(scale_);
      const auto narrow = grouped(slope.to(q_.scalar_type()));
      dq.narrow(0, row, R)
          .narrow(2, query, n)
          .add_(at::matmul(narrow, rows(keys(k, pair))).view({R, H_, n, E_}));
      rows(dk_here).add_(at::matmul(narrow.transpose(2, 3), grouped(piece(q_))));
    });
  }

  /// Calls `work` with some rows and queries of a pair at a time.
  template <class Work>
  void each_piece(const Pair& pair, const Work& work) const {
    const int64_t elements = q_.is_cpu() ? int64_t{1} << 19 : int64_t{1} << 26;
    const int64_t n = pair.queries.length, S = pair.keys.length;
    const int64_t rows = std::clamp<int64_t>(elements / (H_ * n * S), 1, B_);
    const int64_t some = std::clamp<int64_t>(elements / (H_ * S), 1, n);
    for (int64_t row = 0; row < B_; row += rows) {
      for (int64_t query = 0; query < n; query += some) {
        work(row, std::min(rows, B_ - row), query, std::min(some, n - query));
      }
    }
  }

  /// Scores [R, H, n, S] fp32 of a pair.
  at::Tensor scores_of(const Pair& pair, const at::Tensor& k, int64_t row, int64_t R, int64_t query,
                       int64_t n) const {
    const auto q = queries(q_, pair).narrow(0, row, R).narrow(2, query, n);
    const int64_t S = pair.keys.length;
    auto scores = at::matmul(grouped(q), keys(k, pair).narrow(0, row, R).transpose(2, 3));
    scores = scores.view({R, H_, n, S}).to(at::kFloat).mul_(scale_);
    const auto flags = q.options().dtype(at::kBool);
    if (options_.key_mask.defined()) {
      auto hidden = options_.key_mask.narrow(0, row, R)
                        .narrow(1, pair.keys.begin, S)
                        .logical_not()
                        .unsqueeze(1)
                        .unsqueeze(1);
      if (pair.diagonal) {
        hidden = hidden.logical_and(at::eye(S, flags).narrow(0, query, n).logical_not());
      }
      scores.masked_fill_(hidden, kUnseen);
    }
    if (pair.diagonal) scores.masked_fill_(at::ones({n, S}, flags).triu(query + 1), kUnseen);
    return scores;
  }

  /// Dropout mask of a pair; undefined without dropout.
  at::Tensor mask_of(const Pair& pair, int64_t row, int64_t R, int64_t query, int64_t n) const {
    if (options_.dropout == 0 || context_.mode != Mode::Train) return {};
    auto here = context_;
    here.samples = context_.samples.narrow(0, row, R);
    return dropout_mask({R, H_, n, pair.keys.length}, options_.dropout, here, options_.site,
                        {H_, options_.max_length, options_.max_length},
                        {options_.first_head, pair.queries.begin + query, pair.keys.begin},
                        q_.device());
  }
  at::Tensor dropped(const at::Tensor& weights, const Pair& pair, int64_t row, int64_t R,
                     int64_t query, int64_t n) const {
    const auto mask = mask_of(pair, row, R, query, n);
    return (mask.defined() ? weights * mask : weights).to(v_.scalar_type());
  }

  at::Tensor q_, k_, v_;
  AttentionOptions options_;
  Context context_;
  ContextRanks ranks_;
  comm::Group group_;
  double scale_;
  int64_t B_, H_, K_, E_;
  bool fused_;
  at::Tensor out_, log_sums_;      // [B, H, t, E], [B, H, t] fp32
  at::Tensor grad_, slopes_, dq_;  // in backward
};

}  // namespace

at::Tensor ring_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                          const AttentionOptions& options, double scale, const Context& context) {
  auto ring = std::make_shared<Ring>(q, k, v, options, scale, context);
  const auto out = without_grad([&] { return ring->forward(); });
  return with_backward(out, {q, k, v},
                       [ring](const at::Tensor& grad) { return ring->backward(grad); });
}

}  // namespace convoy::nn
