#include "convoy/nn/attention/attention.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>

#include <cmath>

#include "convoy/nn/layers/dropout.h"
#include "tests/nn/peak_memory.h"
#include "tests/nn/testing.h"

namespace convoy::nn {
namespace {

AttentionOptions attention_options(double rate) {
  AttentionOptions options;
  options.dropout = rate;
  options.max_length = 5;
  return options;
}

TEST(Attention, IsCausalOnBothPaths) {
  Context context;
  context.samples = at::arange(2, at::kLong);
  auto q = at::randn({2, 2, 5, 4}), k = at::randn({2, 2, 5, 4}), v = at::randn({2, 2, 5, 4});
  auto k2 = k.clone(), v2 = v.clone();
  k2.select(2, 4).fill_(9);
  v2.select(2, 4).fill_(9);
  for (double rate : {0.0, 0.4}) {
    auto a = attention(q, k, v, attention_options(rate), context);
    auto b = attention(q, k2, v2, attention_options(rate), context);
    expect_close(a.narrow(2, 0, 4), b.narrow(2, 0, 4));
    EXPECT_FALSE(at::allclose(a.select(2, 4), b.select(2, 4)));
  }
  // A rate near zero takes the composed path and must agree with the fused one.
  expect_close(attention(q, k, v, attention_options(0), context),
               attention(q, k, v, attention_options(1e-9), context));
}

TEST(Attention, SeesWhatTheKeyMaskLeaves) {
  Context context;
  context.samples = at::arange(2, at::kLong);
  auto q = at::randn({2, 2, 5, 4}), k = at::randn({2, 2, 5, 4}), v = at::randn({2, 2, 5, 4});
  auto mask = at::ones({2, 5}, at::kBool);
  mask[1][4] = false;
  for (double rate : {0.0, 1e-9}) {
    auto options = attention_options(rate);
    options.causal = false;
    options.key_mask = mask;
    auto out = attention(q, k, v, options, context);
    options.key_mask = at::Tensor();
    expect_close(out[0], attention(q, k, v, options, context)[0]);
    auto short_q = q.slice(0, 1), short_k = k.slice(0, 1).narrow(2, 0, 4);
    context.samples = at::arange(1, at::kLong);
    auto scores = at::softmax(at::matmul(short_q, short_k.transpose(2, 3)) / 2, -1);
    expect_close(out.slice(0, 1), at::matmul(scores, v.slice(0, 1).narrow(2, 0, 4)));
    context.samples = at::arange(2, at::kLong);
  }
}

struct Inputs {
  at::Tensor q, k, v;
  Inputs(int64_t B, int64_t H, int64_t K, int64_t T, int64_t E)
      : q(at::randn({B, H, T, E})), k(at::randn({B, K, T, E})), v(at::randn({B, K, T, E})) {}
  std::vector<at::Tensor> gradients(const at::Tensor& out, const at::Tensor& probe) {
    backward((out * probe).sum());
    return {q.grad(), k.grad(), v.grad()};
  }
  Inputs fresh() const {
    auto out = *this;
    for (auto* x : {&out.q, &out.k, &out.v}) *x = x->detach().clone().requires_grad_(true);
    return out;
  }
};

/// The whole matrix at once, by autograd.
at::Tensor plainly(const Inputs& in, const AttentionOptions& options, const Context& context) {
  const int64_t H = in.q.size(1), T = in.q.size(2), G = H / in.k.size(1);
  auto k = in.k.repeat_interleave(G, 1), v = in.v.repeat_interleave(G, 1);
  auto scale = options.scale > 0 ? options.scale : 1 / std::sqrt(in.q.size(3));
  auto scores = at::matmul(in.q, k.transpose(2, 3)) * scale;
  auto seen = at::ones({T, T}, at::kBool).tril().unsqueeze(0);
  if (options.key_mask.defined()) {
    seen = (seen & options.key_mask.unsqueeze(1)) | at::eye(T, at::kBool);
  }
  scores = scores.masked_fill(~seen.unsqueeze(1), -INFINITY);
  auto probabilities = at::softmax(scores, -1);
  if (options.dropout > 0) {
    const int64_t L = options.max_length;
    probabilities = probabilities * dropout_mask(probabilities.sizes(), options.dropout, context,
                                                 options.site, {H, L, L});
  }
  return at::matmul(probabilities, v);
}

void expect_plain(const Inputs& in, const AttentionOptions& options) {
  Context context;
  context.samples = at::arange(in.q.size(0), at::kLong) + 3;
  context.seed = 5;
  auto ours = in.fresh(), theirs = in.fresh();
  auto probe = at::randn(in.q.sizes());
  auto out = attention(ours.q, ours.k, ours.v, options, context);
  auto expected = plainly(theirs, options, context);
  EXPECT_TRUE(at::allclose(out, expected, 1e-4, 1e-5));
  auto a = ours.gradients(out, probe), b = theirs.gradients(expected, probe);
  for (size_t i = 0; i < a.size(); ++i) {
    EXPECT_LE((a[i] - b[i]).abs().max().item<double>(), 1e-4 * b[i].abs().max().item<double>())
        << i;
  }
}

TEST(Attention, GroupsShareTheirKeyHeads) {
  for (double rate : {0.0, 0.3}) {
    auto options = attention_options(rate);
    expect_plain(Inputs(2, 6, 2, 5, 4), options);
    options.scale = 0.8;
    expect_plain(Inputs(2, 3, 1, 5, 4), options);
  }
}

TEST(Attention, IsThePlainFormulaAtAnyLength) {
  for (const int64_t T : {1, 15, 16, 17, 40, 128, 130}) {
    SCOPED_TRACE(T);
    expect_plain(Inputs(3, 4, 2, T, 8), attention_options(0));
  }
}

TEST(Attention, MasksOfShortRowsHideKeysFromAllQueries) {
  constexpr int64_t B = 3, T = 20, S = 37;
  Inputs in(B, 4, 2, S, 8);
  in.q = at::randn({B, 4, T, 8});
  auto options = attention_options(0);
  options.causal = false;
  options.key_mask = at::rand({B, S}) < 0.6;
  options.key_mask[2].fill_(false);
  const auto a = in.fresh();
  const auto make = [&]() -> KvCache::Seen { return {a.k, a.v}; };
  const auto out = cross_attention(a.q, make, options, {});
  EXPECT_TRUE(out[2].equal(at::zeros_like(out[2]))) << "nothing is seen";

  auto two = [](const at::Tensor& x) { return x.detach().narrow(0, 0, 2).to(at::kDouble); };
  auto q = two(in.q).requires_grad_(true), k = two(in.k).requires_grad_(true);
  auto v = two(in.v).requires_grad_(true);
  auto scores = at::matmul(q, k.repeat_interleave(2, 1).transpose(2, 3)) / std::sqrt(8.0);
  const auto hidden = options.key_mask.narrow(0, 0, 2).logical_not().view({2, 1, 1, S});
  scores = scores.masked_fill(hidden, -INFINITY);
  const auto expected = at::matmul(at::softmax(scores, -1), v.repeat_interleave(2, 1));
  EXPECT_TRUE(at::allclose(two(out), expected, 1e-4, 1e-5));
  const auto probe = at::randn(expected.sizes(), at::kDouble);
  backward((out.narrow(0, 0, 2) * probe.to(at::kFloat)).sum());
  backward((expected * probe).sum());
  EXPECT_TRUE(at::allclose(two(a.q.grad()), q.grad(), 1e-4, 1e-5));
  EXPECT_TRUE(at::allclose(two(a.k.grad()), k.grad(), 1e-4, 1e-5));
  EXPECT_TRUE(at::allclose(two(a.v.grad()), v.grad(), 1e-4, 1e-5));
}

TEST(Attention, ShortRowsInBf16AreNearFp32) {
  const Inputs in(2, 4, 2, 50, 16);
  auto low = in.fresh(), high = in.fresh();
  for (auto [to, from] : {std::pair{&low.q, &high.q}, {&low.k, &high.k}, {&low.v, &high.v}}) {
    *to = from->detach().to(at::kBFloat16).requires_grad_(true);
    *from = to->detach().to(at::kFloat).requires_grad_(true);
  }
  const auto a = attention(low.q, low.k, low.v, attention_options(0), {});
  const auto b = attention(high.q, high.k, high.v, attention_options(0), {});
  auto near = [](const at::Tensor& x, const at::Tensor& y) {
    return (x - y).abs().max().item<double>() <= 2e-2 * y.abs().max().item<double>();
  };
  EXPECT_TRUE(near(a, b));
  const auto probe = at::randn(b.sizes()).to(at::kBFloat16);
  const auto x = low.gradients(a, probe), y = high.gradients(b, probe.to(at::kFloat));
  for (size_t i = 0; i < x.size(); ++i) EXPECT_TRUE(near(x[i], y[i])) << i;
}

TEST(Attention, ShortRowsKeepTheirProbabilitiesOnly) {
  constexpr int64_t B = 4, H = 8, T = 64, E = 16;
  // As a layer has them: parts of one product.
  const auto joined = at::randn({B, T, 3 * H * E}).requires_grad_(true);
  auto heads = [&](int64_t i) {
    return joined.narrow(2, i * H * E, H * E).view({B, T, H, E}).transpose(1, 2);
  };
  const auto q = heads(0), k = heads(1), v = heads(2);
  PeakMemory memory;
  const auto out = attention(q, k, v, attention_options(0), {});
  EXPECT_LE(memory.held(), B * H * T * (T + E) * 4 + 8192);
}

TEST(Attention, GroupsCopyNoKeyHead) {
  // Few queries and one long head of keys for all of them: keys or values repeated are most of it.
  constexpr int64_t H = 16, T = 2, S = 2048, E = 64;
  for (double rate : {0.0, 0.3}) {
    const auto q = at::randn({1, H, T, E}).requires_grad_(true);
    const auto k = at::randn({1, 1, S, E}).requires_grad_(true);
    const auto v = at::randn({1, 1, S, E}).requires_grad_(true);
    auto options = attention_options(rate);
    options.causal = false;
    options.max_length = S;
    Context context;
    context.samples = at::zeros({1}, at::kLong);
    const auto make = [&]() -> KvCache::Seen { return {k, v}; };
    PeakMemory memory;
    backward(cross_attention(q, make, options, context).sum());
    EXPECT_LT(memory.peak(), H * S * E * 4) << rate;
    EXPECT_TRUE(k.grad().defined());
  }
}

TEST(Attention, TakesAKeyMaskWithCausality) {
  auto mask = at::ones({2, 5}, at::kBool);
  mask[0][0] = mask[0][1] = mask[1][4] = false;  // padding on the left and on the right
  for (double rate : {0.0, 0.3}) {
    auto options = attention_options(rate);
    options.key_mask = mask;
    expect_plain(Inputs(2, 2, 2, 5, 4), options);
  }
}

TEST(Attention, CrossAttentionTakesALearnedBias) {
  for (const auto& [T, S] : {std::pair<int64_t, int64_t>{5, 7}, {7, 3}, {300, 420}}) {
    for (const double rate : {0.0, 0.3}) {
      for (const bool masked : {false, true}) {
        const int64_t B = 3, H = 4, K = 2, E = 4;
        auto leaf = [](at::IntArrayRef sizes) { return at::randn(sizes).requires_grad_(true); };
        const std::vector<at::Tensor> in{leaf({B, H, T, E}), leaf({B, K, S, E}), leaf({B, K, S, E}),
                                         leaf({1, H, T, S})};
        AttentionOptions options;
        options.causal = false;
        options.dropout = rate;
        options.max_length = 512;
        options.scale = 1;
        options.bias = in[3];
        if (masked) {
          options.key_mask = at::rand({B, S}) < 0.7;
          options.key_mask.select(1, 1).fill_(true);
        }
        Context context;
        context.samples = at::arange(B, at::kLong);
        const auto run = [&](bool ours) {
          for (const auto& x : in) x.mutable_grad() = at::Tensor();
          at::Tensor out;
          if (ours) {
            const auto make = [&]() -> KvCache::Seen { return {in[1], in[2]}; };
            out = cross_attention(in[0], make, options, context);
          } else {
            auto scores = at::matmul(in[0], in[1].repeat_interleave(H / K, 1).transpose(2, 3));
            scores = scores + in[3];
            if (masked) {
              scores = scores.masked_fill(~options.key_mask.unsqueeze(1).unsqueeze(1), -INFINITY);
            }
            auto mixed = at::softmax(scores, -1);
            if (rate > 0) {
              mixed = mixed * dropout_mask(mixed.sizes(), rate, context, 0, {H, 512, 512});
            }
            out = at::matmul(mixed, in[2].repeat_interleave(H / K, 1));
          }
          backward((out * at::arange(out.numel()).view(out.sizes()).sin()).sum());
          std::vector<at::Tensor> values{out.detach()};
          for (const auto& x : in) values.push_back(x.grad().clone());
          return values;
        };
        const auto a = run(true), b = run(false);
        for (size_t i = 0; i < a.size(); ++i) {
          EXPECT_LE((a[i] - b[i]).abs().max().item<double>(),
                    1e-4 * b[i].abs().max().item<double>())
              << i << " of " << T << " x " << S;
        }
        if (rate > 0) continue;
        context.mode = Mode::Evaluate;
        const auto make = [&]() -> KvCache::Seen { return {in[1], in[2]}; };
        at::NoGradGuard no_grad;
        expect_close(cross_attention(in[0], make, options, context), a[0]);
      }
    }
  }
}

TEST(Attention, ABiasGoesWithCausality) {
  auto in = Inputs(2, 2, 2, 6, 4).fresh();
  AttentionOptions options;
  options.scale = 1;
  options.bias = at::randn({1, 2, 6, 6});
  Context context;
  context.samples = at::arange(2, at::kLong);
  auto scores = at::matmul(in.q, in.k.transpose(2, 3)) + options.bias;
  scores = scores.masked_fill(at::ones({6, 6}, at::kBool).triu(1), -INFINITY);
  const auto expected = at::matmul(at::softmax(scores, -1), in.v);
  expect_close(attention(in.q, in.k, in.v, options, context), expected);
  context.mode = Mode::Evaluate;
  expect_close(attention(in.q, in.k, in.v, options, context), expected);
}

TEST(Attention, CrossAttentionComputesItsKeysOnceWithACache) {
  auto q = at::randn({2, 2, 1, 4}), k = at::randn({2, 2, 5, 4}), v = at::randn({2, 2, 5, 4});
  int asked = 0;
  const auto make = [&]() -> KvCache::Seen {
    ++asked;
    return {k, v};
  };
  AttentionOptions options;
  options.causal = false;
  KvCache cache(9);
  Context context;
  context.mode = Mode::Predict;
  const auto plain = cross_attention(q, make, options, context);
  context.cache = &cache;
  expect_close(cross_attention(q, make, options, context), plain);
  expect_close(cross_attention(q, make, options, context), plain);
  EXPECT_EQ(asked, 2);
  EXPECT_EQ(cache.bytes(), 2 * 2 * 2 * 5 * 4 * 4);
}

TEST(Attention, PiecesOfTheMatrixAreTheMatrix) {
  // 2 x 700 x 700 elements are several pieces of queries; 40 rows of 2 x 90 x 90 several of rows.
  auto options = attention_options(0.2);
  options.max_length = 701;
  expect_plain(Inputs(2, 2, 1, 700, 4), options);
  expect_plain(Inputs(40, 2, 2, 90, 4), options);
  options.key_mask = at::rand({2, 700}) < 0.8;
  expect_plain(Inputs(2, 2, 2, 700, 4), options);
}

TEST(Attention, DropoutKeepsNoMatrix) {
  const int64_t H = 4, T = 1000;
  auto in = Inputs(1, H, H, T, 8).fresh();
  auto options = attention_options(0.1);
  options.max_length = T;
  Context context;
  context.samples = at::zeros({1}, at::kLong);
  const auto matrix = H * T * T * 4;
  PeakMemory memory;
  auto out = attention(in.q, in.k, in.v, options, context);
  EXPECT_LE(memory.held(), out.numel() * 4 + 4096);
  backward(out.sum());
  EXPECT_LT(memory.peak(), matrix);
}

/// The formula with whole matrices: a window of keys, a cap on scores, a key mask.
at::Tensor plain_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                           const AttentionOptions& options) {
  const int64_t T = q.size(2), S = k.size(2), groups = q.size(1) / k.size(1);
  const auto keys = k.repeat_interleave(groups, 1), values = v.repeat_interleave(groups, 1);
  auto scores = at::matmul(q, keys.transpose(2, 3)) / std::sqrt(static_cast<double>(q.size(3)));
  if (options.cap != 0) scores = (scores / options.cap).tanh() * options.cap;
  const auto key = at::arange(S, at::kLong).unsqueeze(0);
  const auto query = at::arange(S - T, S, at::kLong).unsqueeze(1);
  auto seen = key <= query;
  if (options.window > 0) seen = seen & (key > query - options.window);
  seen = seen.unsqueeze(0).unsqueeze(0);
  if (options.key_mask.defined()) {
    seen = (seen & options.key_mask.unsqueeze(1).unsqueeze(1)) | (key == query);
  }
  scores = scores.masked_fill(seen.logical_not(), -HUGE_VAL);
  return at::matmul(at::softmax(scores, -1), values);
}

TEST(Attention, WindowsAndCapsAreThePlainFormula) {
  Context context;
  context.samples = at::arange(2, at::kLong);
  for (const int64_t T : {7, 150}) {
    for (const int64_t window : {0, 1, 3, 64, 149, 150, 400}) {
      for (const double cap : {0.0, 0.8}) {
        for (const bool masks : {false, true}) {
          SCOPED_TRACE(testing::Message() << T << " " << window << " " << cap << " " << masks);
          const auto leaf = [&](int64_t heads) {
            return at::randn({2, heads, T, 4}).requires_grad_();
          };
          const auto q = leaf(4), k = leaf(2), v = leaf(2);
          AttentionOptions options;
          options.max_length = T;
          options.window = window;
          options.cap = cap;
          if (masks) {
            options.key_mask = at::ones({2, T}, at::kBool);
            options.key_mask[0].narrow(0, 0, 3).fill_(false);
          }
          const auto weight = at::randn({2, 4, T, 4});
          const auto grads = [&](const at::Tensor& out) {
            return torch::autograd::grad({(out * weight).sum()}, {q, k, v});
          };
          const auto ours = attention(q, k, v, options, context);
          const auto plain = plain_attention(q, k, v, options);
          EXPECT_TRUE(at::allclose(ours, plain, 1e-4, 1e-5));
          const auto mine = grads(ours), theirs = grads(plain);
          for (size_t i = 0; i < mine.size(); ++i) {
            EXPECT_TRUE(at::allclose(mine[i], theirs[i], 1e-3, 1e-4)) << i;
          }
          context.mode = Mode::Evaluate;
          EXPECT_TRUE(at::allclose(attention(q, k, v, options, context), plain, 1e-4, 1e-5));
          context.mode = Mode::Train;
        }
      }
    }
  }
}

TEST(Attention, AWindowAsWideAsTheRowChangesNoBit) {
  Context context;
  context.samples = at::arange(2, at::kLong);
  const auto q = at::randn({2, 2, 9, 4}), k = at::randn({2, 2, 9, 4}), v = at::randn({2, 2, 9, 4});
  auto options = attention_options(0);
  options.max_length = 9;
  const auto all = attention(q, k, v, options, context);
  options.window = 9;
  EXPECT_TRUE(at::equal(attention(q, k, v, options, context), all));
  options.window = 8;
  EXPECT_FALSE(at::equal(attention(q, k, v, options, context), all));
}

}  // namespace
}  // namespace convoy::nn
