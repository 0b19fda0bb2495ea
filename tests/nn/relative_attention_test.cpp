#include "convoy/nn/attention/relative_attention.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>

#include "convoy/nn/layers/dropout.h"
#include "convoy/nn/param.h"
#include "tests/nn/testing.h"

// Its own backward gives the gradients of autograd. B rows, H heads, E width of a head.
namespace convoy::nn {
namespace {

constexpr int64_t B = 3, H = 2, E = 4, kLongest = 9, kSite = 7;

ParamPtr bias(const at::Tensor& value) {
  auto out = std::make_shared<Param>(ParamSpec{"bias", {H, E}, Init::zeros()});
  out->bind_value(value.clone());
  out->bind_grad(at::zeros_like(value));
  return out;
}

/// Scores as they are written down, one by one.
at::Tensor plain(const std::vector<at::Tensor>& in, const RelativeOptions& options,
                 const Context& context) {
  const auto &q = in[0], &k = in[1], &v = in[2], &r = in[3];
  const int64_t T = q.size(2);
  const auto words = at::matmul(q + in[4].unsqueeze(1), k.transpose(2, 3));
  const auto distances = at::matmul(q + in[5].unsqueeze(1), r.transpose(1, 2));  // [B, H, T, 2 T]
  std::vector<at::Tensor> rows;
  for (int64_t i = 0; i < T; ++i) rows.push_back(distances.select(2, i).narrow(2, T - i, T));
  auto scores = (words + at::stack(rows, 2)) / std::sqrt(static_cast<double>(E));
  const auto& seen = options.seen;
  if (seen.defined()) scores = scores.masked_fill(seen.logical_not(), -1e30);
  auto weights = scores.softmax(-1);
  if (options.dropout > 0) {
    weights = weights *
              dropout_mask({B, H, T, T}, options.dropout, context, kSite, {H, kLongest, kLongest});
  }
  if (seen.defined()) weights = weights.masked_fill(seen.any(-1, true).logical_not(), 0);
  return at::matmul(weights, v);
}

/// What is given, and the gradients of queries, keys, values, distances and biases.
struct Result {
  at::Tensor out;
  std::vector<at::Tensor> grads;
};

Result of(const std::vector<at::Tensor>& values, const RelativeOptions& options, bool own) {
  Context context;
  context.mode = Mode::Train;
  context.samples = at::arange(B, at::kLong) + 5;
  std::vector<at::Tensor> in;
  for (const auto& value : values) in.push_back(value.clone().requires_grad_(true));
  Result result;
  const auto words = bias(values[4]), distances = bias(values[5]);
  result.out =
      own ? relative_attention({in[0], words, distances}, in[1], in[2], in[3], options, context)
          : plain(in, options, context);
  backward((result.out * at::arange(result.out.numel()).view(result.out.sizes()).sin()).sum());
  for (size_t i = 0; i < in.size(); ++i) {
    result.grads.push_back(!own || i < 4 ? in[i].grad() : (i == 4 ? words : distances)->grad());
  }
  result.out = result.out.detach();
  return result;
}

TEST(RelativeAttention, HasTheGradientsOfAutograd) {
  at::manual_seed(3);
  for (const int64_t T : {1, 6}) {
    auto each = at::rand({B, 1, T, T}) < 0.5;
    each[1].fill_(false);  // a row whose queries see nothing
    const auto causal = at::ones({1, 1, T, T}, at::kBool).tril();
    const std::vector<at::Tensor> values{at::randn({B, H, T, E}), at::randn({B, H, T, E}),
                                         at::randn({B, H, T, E}), at::randn({H, 2 * T, E}),
                                         at::randn({H, E}),       at::randn({H, E})};
    for (const auto& seen : {at::Tensor(), causal, each}) {
      for (const double dropout : {0.0, 0.3}) {
        SCOPED_TRACE(testing::Message() << T << " positions, dropout " << dropout);
        const RelativeOptions options{
            .seen = seen, .dropout = dropout, .max_length = kLongest, .site = kSite};
        const auto own = of(values, options, true), known = of(values, options, false);
        expect_close(own.out, known.out);
        for (size_t i = 0; i < known.grads.size(); ++i) {
          SCOPED_TRACE(i);
          expect_close(own.grads[i], known.grads[i]);
        }
      }
    }
  }
}

}  // namespace
}  // namespace convoy::nn
