#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "convoy/nn/attention/kv_cache.h"
#include "convoy/nn/delta/causal_conv.h"
#include "convoy/nn/delta/gated_delta_rule.h"
#include "convoy/nn/node.h"
#include "tests/nn/peak_memory.h"
#include "tests/nn/testing.h"

// The gated delta rule position by position in double, by plain autograd, beside chunks in fp32.
namespace convoy::nn {
namespace {

constexpr DeltaHeads kDeltaHeads{.keys = 2, .values = 6, .key_width = 5, .value_width = 4};

struct DeltaInputs {
  at::Tensor mixed, decay, beta;

  DeltaInputs of(at::ScalarType dtype, int64_t row, int64_t begin, int64_t length) const {
    const auto part = [&](const at::Tensor& x) {
      return x.detach().narrow(0, row, 1).narrow(1, begin, length).to(dtype).clone();
    };
    return {part(mixed).requires_grad_(true), part(decay).requires_grad_(true),
            part(beta).requires_grad_(true)};
  }
  DeltaInputs whole(at::ScalarType dtype) const {
    const auto copy = [&](const at::Tensor& x) {
      return x.detach().to(dtype).clone().requires_grad_(true);
    };
    return {copy(mixed), copy(decay), copy(beta)};
  }
};

DeltaInputs some_deltas(int64_t B, int64_t T, const DeltaHeads& heads = kDeltaHeads) {
  at::manual_seed(5);
  return {at::randn({B, T, heads.columns()}), -at::rand({B, T, heads.values}) * 0.3,
          at::rand({B, T, heads.values})};
}

/// Position by position, [B, T, H, V].
at::Tensor one_by_one(const DeltaInputs& in, const DeltaHeads& heads) {
  const int64_t B = in.mixed.size(0), T = in.mixed.size(1);
  const int64_t keys = heads.all_keys(), r = heads.values_of_key();
  const auto unit = [&](int64_t begin) {
    const auto x = in.mixed.narrow(2, begin, keys).view({B, T, heads.keys, heads.key_width});
    return (x * (x.square().sum(-1, true) + 1e-6).rsqrt()).repeat_interleave(r, 2);
  };
  const auto q = unit(0) / std::sqrt(static_cast<double>(heads.key_width)), k = unit(keys);
  const auto v = in.mixed.narrow(2, 2 * keys, heads.all_values())
                     .view({B, T, heads.values, heads.value_width});
  auto state = at::zeros({B, heads.values, heads.key_width, heads.value_width}, v.options());
  std::vector<at::Tensor> out;
  for (int64_t t = 0; t < T; ++t) {
    state = state * in.decay.select(1, t).exp().view({B, -1, 1, 1});
    const auto key = k.select(1, t).unsqueeze(3);
    const auto wrong = v.select(1, t) - (state * key).sum(2);
    state = state + key * (wrong * in.beta.select(1, t).unsqueeze(2)).unsqueeze(2);
    out.push_back((state * q.select(1, t).unsqueeze(3)).sum(2));
  }
  return at::stack(out, 1);
}

at::Tensor rule(const DeltaInputs& in, const std::vector<DocumentPlace>& documents = {}) {
  return gated_delta_rule(in.mixed, in.decay, in.beta,
                          {.heads = kDeltaHeads, .documents = documents});
}

TEST(GatedDeltaRule, IsTheRecurrenceAtEveryLength) {
  for (const int64_t T : {1, 3, 16, 17, 64, 65, 130, 512, 700}) {
    SCOPED_TRACE(T);
    const auto given = some_deltas(2, T);
    const auto ours = given.whole(at::kFloat), theirs = given.whole(at::kDouble);
    const auto heard = rule(ours), expected = one_by_one(theirs, kDeltaHeads);
    const auto probe = at::randn(heard.sizes());
    expect_close(heard.detach(), expected.detach().to(at::kFloat));
    backward((heard * probe).sum());
    backward((expected * probe).sum());
    expect_grads_near({{ours.mixed.grad(), theirs.mixed.grad()},
                       {ours.decay.grad(), theirs.decay.grad()},
                       {ours.beta.grad(), theirs.beta.grad()}},
                      3e-6);
  }
}

TEST(GatedDeltaRule, TakesRatesOfCorrectionUpToTwo) {
  auto given = some_deltas(1, 200);
  given.beta = given.beta + 0.99;
  const auto expected = one_by_one(given.whole(at::kDouble), kDeltaHeads);
  expect_close(rule(given.whole(at::kFloat)).detach(), expected.detach().to(at::kFloat));
}

TEST(GatedDeltaRule, ForgetsEverythingWithoutOverflow) {
  auto given = some_deltas(1, 130);
  given.decay = at::full_like(given.decay, -200);
  const auto ours = given.whole(at::kFloat);
  const auto heard = rule(ours);
  backward(heard.square().sum());
  for (const auto& x : {heard, ours.mixed.grad(), ours.decay.grad(), ours.beta.grad()}) {
    EXPECT_TRUE(at::isfinite(x).all().item<bool>());
  }
  expect_close(heard.detach(),
               one_by_one(given.whole(at::kDouble), kDeltaHeads).detach().to(at::kFloat));
}

TEST(GatedDeltaRule, KeepsDocumentsApart) {
  const std::vector<DocumentPlace> places{
      {0, 0, 70}, {0, 70, 1}, {0, 71, 29}, {1, 0, 95}, {1, 95, 5, /*is_padding=*/true}};
  const auto given = some_deltas(2, 100);
  const auto all = given.whole(at::kFloat);
  const auto heard = rule(all, places);
  const auto probe = at::randn(heard.sizes());
  backward((heard * probe).sum());
  for (const auto& place : places) {
    const auto part = [&](const at::Tensor& x) {
      return x.narrow(0, place.row, 1).narrow(1, place.begin, place.length);
    };
    if (place.is_padding) {
      EXPECT_EQ(part(heard).abs().max().item<float>(), 0);
      EXPECT_EQ(part(all.mixed.grad()).abs().max().item<float>(), 0);
      continue;
    }
    const auto alone = given.of(at::kFloat, place.row, place.begin, place.length);
    const auto own = rule(alone);
    EXPECT_TRUE(at::equal(part(heard), own));
    backward((own * part(probe)).sum());
    EXPECT_TRUE(at::equal(part(all.mixed.grad()), alone.mixed.grad()));
    EXPECT_TRUE(at::equal(part(all.decay.grad()), alone.decay.grad()));
    EXPECT_TRUE(at::equal(part(all.beta.grad()), alone.beta.grad()));
  }
}

TEST(GatedDeltaRule, GoesOnFromItsState) {
  const auto in = some_deltas(2, 150);
  at::NoGradGuard no_grad;
  const auto whole = rule(in);
  at::Tensor state;
  std::vector<at::Tensor> parts;
  for (const auto& [begin, end] : {std::pair{0, 70}, {70, 71}, {71, 72}, {72, 80}, {80, 150}}) {
    const auto part = [&](const at::Tensor& x) { return x.narrow(1, begin, end - begin); };
    parts.push_back(gated_delta_rule(part(in.mixed), part(in.decay), part(in.beta),
                                     {.heads = kDeltaHeads, .state = &state}));
  }
  expect_close(at::cat(parts, 1), whole);
}

TEST(GatedDeltaRule, CannotForgetPositionsOfACache) {
  KvCache cache(10);
  EXPECT_FALSE(cache.recurrence(3).state.defined());
  cache.recurrence(3) = {at::zeros({1, 3, 5}), at::zeros({1, 2, 3, 4})};
  cache.advance(5);
  EXPECT_TRUE(cache.go_back_to(5));
  EXPECT_FALSE(cache.go_back_to(4));
  EXPECT_EQ(cache.length(), 5);
  EXPECT_EQ(cache.bytes(), (3 * 5 + 2 * 3 * 4) * 4);
}

TEST(GatedDeltaRule, HasTheSameBitsWithAnyNumberOfThreads) {
  const auto given = some_deltas(2, 600);
  const auto run = [&](int threads) {
    at::set_num_threads(threads);
    const auto in = given.whole(at::kFloat);
    const auto heard = rule(in);
    backward(heard.square().sum());
    return std::vector{heard.detach(), in.mixed.grad(), in.decay.grad(), in.beta.grad()};
  };
  const int before = at::get_num_threads();
  const auto one = run(1), two = run(2), again = run(2);
  at::set_num_threads(before);
  for (size_t i = 0; i < one.size(); ++i) {
    EXPECT_TRUE(at::equal(one[i], two[i])) << i;
    EXPECT_TRUE(at::equal(two[i], again[i])) << i;
  }
}

TEST(GatedDeltaRule, KeepsMemoryLinearInTheLength) {
  constexpr DeltaHeads kWide{.keys = 2, .values = 4, .key_width = 32, .value_width = 32};
  const auto held = [&](int64_t T) {
    const auto in = some_deltas(1, T, kWide).whole(at::kFloat);
    const PeakMemory memory;
    const auto heard = gated_delta_rule(in.mixed, in.decay, in.beta, {.heads = kWide});
    return memory.held();
  };
  const int64_t states = 4 * 32 * 32 * 4, results = 512 * 4 * 32 * 4;
  EXPECT_GE(held(1024), 2 * (states + results));
  EXPECT_LT(held(1024), 3 * (states + results));
  EXPECT_LT(held(8192), 8.5 * static_cast<double>(held(1024)));
}

TEST(DeltaDecay, IsItsFormula) {
  const auto steps = at::randn({2, 7, 3}).requires_grad_(true);
  const auto rate = param(at::randn({3})), bias = param(at::randn({3}));
  const auto probe = at::randn({2, 7, 3});
  const auto ours = delta_decay(steps, rate, bias);
  backward((ours * probe).sum());
  const auto steps2 = steps.detach().clone().requires_grad_(true);
  const auto rate2 = rate->value().clone().requires_grad_(true);
  const auto bias2 = bias->value().clone().requires_grad_(true);
  const auto theirs = -rate2.exp() * at::softplus(steps2 + bias2);
  backward((theirs * probe).sum());
  expect_close(ours.detach(), theirs.detach());
  expect_close(steps.grad(), steps2.grad());
  expect_close(rate->grad(), rate2.grad());
  expect_close(bias->grad(), bias2.grad());
}

/// Torch's convolution of documents, one by one.
at::Tensor convolved(const at::Tensor& x, const at::Tensor& weight,
                     const std::vector<DocumentPlace>& places) {
  const int64_t W = weight.size(2);
  std::vector<at::Tensor> out;
  for (const auto& place : places) {
    const auto part = x.narrow(0, place.row, 1).narrow(1, place.begin, place.length);
    const auto padded = at::constant_pad_nd(part.transpose(1, 2), {W - 1, 0});
    out.push_back(at::conv1d(padded, weight, std::nullopt, 1, at::IntArrayRef{0}, 1, x.size(2))
                      .transpose(1, 2)[0]);
  }
  return at::cat(out).view(x.sizes());
}

TEST(CausalConv, IsTorchsWithinDocuments) {
  const std::vector<DocumentPlace> rows{{0, 0, 300}, {1, 0, 300}},
      documents{{0, 0, 290}, {0, 290, 2}, {0, 292, 8}, {1, 0, 1}, {1, 1, 299}};
  for (const int64_t M : {3, 37}) {
    for (const int64_t W : {1, 4}) {
      for (const auto& places : {rows, documents}) {
        SCOPED_TRACE(std::to_string(M) + " x " + std::to_string(W));
        const auto x = at::randn({2, 300, M}).requires_grad_(true);
        const auto weight = param(at::randn({M, 1, W}));
        const auto ours =
            causal_conv(x, weight, places.size() == rows.size() ? decltype(rows)() : places);
        const auto x2 = x.detach().clone().requires_grad_(true);
        const auto weight2 = weight->value().clone().requires_grad_(true);
        const auto theirs = convolved(x2, weight2, places);
        const auto probe = at::randn(ours.sizes());
        backward((ours * probe).sum());
        backward((theirs * probe).sum());
        expect_close(ours.detach(), theirs.detach());
        expect_close(x.grad(), x2.grad());
        expect_grads_near({{weight->grad(), weight2.grad()}}, 1e-5);
      }
    }
  }
}

TEST(CausalConv, GoesOnFromATailAndTakesBf16AndFp16) {
  at::NoGradGuard no_grad;
  const auto x = at::randn({2, 20, 21});
  const auto weight = param(at::randn({21, 1, 4}));
  const auto whole = causal_conv(x, weight, {});
  const auto rest = causal_conv(x.narrow(1, 9, 11), weight, {}, x.narrow(1, 6, 3));
  EXPECT_TRUE(at::equal(rest, whole.narrow(1, 9, 11)));
  for (const auto dtype : {at::kBFloat16, at::kHalf}) {
    const auto narrow = x.to(dtype);
    const auto wide = causal_conv(narrow.to(at::kFloat), weight, {});
    const auto ours = causal_conv(narrow, weight, {});
    EXPECT_EQ(ours.scalar_type(), dtype);
    EXPECT_LE((ours - wide.to(dtype)).abs().max().item<double>(), 1e-6);
  }
}

TEST(CausalConv, BySums) {
  // A processor's other dtypes and a GPU add up shifted inputs.
  const std::vector<DocumentPlace> places{{0, 0, 5}, {0, 5, 1}, {0, 6, 4}};
  const auto x = at::randn({1, 10, 8}).to(at::kHalf).requires_grad_(true);
  const auto x2 = x.detach().to(at::kFloat).requires_grad_(true);
  const auto weight = param(at::randn({8, 1, 4})), weight2 = param(weight->value().clone());
  const auto probe = at::randn({1, 10, 8}).to(at::kHalf);
  backward((causal_conv(x, weight, places) * probe).sum());
  backward((causal_conv(x2, weight2, places) * probe).sum());
  expect_grads_near({{x.grad(), x2.grad()}, {weight->grad(), weight2->grad()}}, 2e-3);
}

}  // namespace
}  // namespace convoy::nn
