#include "convoy/nn/experts/experts.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/comm/ranks_testing.h"
#include "tests/nn/testing.h"

// Experts against a loop over tokens by plain autograd, in double precision.
namespace convoy::nn {
namespace {

constexpr int64_t kStates = 9, kStateWidth = 6, kExpertWidth = 5;

struct Mixture {
  explicit Mixture(int64_t num_experts, at::ScalarType type = at::kDouble) {
    const auto random = [&](at::IntArrayRef sizes) { return at::randn(sizes, type); };
    for (int64_t e = 0; e < num_experts; ++e) {
      all.push_back({param(random({kExpertWidth, kStateWidth})),
                     param(random({kExpertWidth, kStateWidth})),
                     param(random({kStateWidth, kExpertWidth}))});
    }
  }

  std::vector<ExpertParams> all;
};

/// Results, and gradients of the states, logits and matrices, of one pass.
struct Pass {
  at::Tensor out, states, logits;
  std::vector<at::Tensor> weights;
};

Pass pass_of_experts(const Mixture& model, const at::Tensor& states, const at::Tensor& logits,
                     int64_t k, RoutingWeights weights, const at::Tensor& probe) {
  Pass out;
  out.states = states.detach().clone().requires_grad_(true);
  out.logits = logits.detach().clone().requires_grad_(true);
  const auto routing = route(out.logits, k, weights);
  out.out = experts(out.states, routing, model.all, "silu", {});
  backward((out.out * probe).sum());
  for (const auto& [gate, up, down] : model.all) {
    for (const auto& matrix : {gate, up, down}) out.weights.push_back(matrix->grad());
  }
  return out;
}

Pass expected_of(const Mixture& model, const at::Tensor& states, const at::Tensor& logits,
                 int64_t k, RoutingWeights weights, const at::Tensor& probe) {
  Pass out;
  out.states = states.detach().clone().requires_grad_(true);
  out.logits = logits.detach().clone().requires_grad_(true);
  std::vector<at::Tensor> leaves;
  for (const auto& [gate, up, down] : model.all) {
    for (const auto& matrix : {gate, up, down}) {
      leaves.push_back(matrix->value().clone().requires_grad_(true));
    }
  }
  const auto probs = at::softmax(out.logits, -1, at::kFloat).to(states.scalar_type());
  const auto order = std::get<1>(probs.detach().sort(/*stable=*/true, -1, /*descending=*/true));
  std::vector<at::Tensor> rows;
  for (int64_t t = 0; t < states.size(0); ++t) {
    auto chosen = probs[t].index_select(0, order[t].narrow(0, 0, k));
    if (weights == RoutingWeights::OfSumOne) chosen = chosen / chosen.sum();
    at::Tensor sum;
    for (int64_t i = 0; i < k; ++i) {
      const auto e = static_cast<size_t>(3 * order[t][i].item<int64_t>());
      const auto x = out.states[t];
      const auto inner = at::silu(at::mv(leaves[e], x)) * at::mv(leaves[e + 1], x);
      const auto row = chosen[i] * at::mv(leaves[e + 2], inner);
      sum = sum.defined() ? sum + row : row;
    }
    rows.push_back(sum);
  }
  out.out = at::stack(rows);
  backward((out.out * probe).sum());
  for (const auto& leaf : leaves) {
    out.weights.push_back(leaf.grad().defined() ? leaf.grad() : at::zeros_like(leaf));
  }
  return out;
}

void expect_alike(const Pass& ours, const Pass& theirs, double tolerance = 1e-6) {
  const auto near = [&](const at::Tensor& a, const at::Tensor& b) {
    ASSERT_EQ(a.sizes(), b.sizes());
    EXPECT_LE((a.to(at::kDouble) - b).abs().max().item<double>(),
              tolerance * std::max(1.0, b.abs().max().item<double>()));
  };
  near(ours.out, theirs.out);
  near(ours.states.grad(), theirs.states.grad());
  near(ours.logits.grad(), theirs.logits.grad());
  ASSERT_EQ(ours.weights.size(), theirs.weights.size());
  for (size_t i = 0; i < ours.weights.size(); ++i) near(ours.weights[i], theirs.weights[i]);
}

TEST(Experts, AreALoopOverTokens) {
  at::manual_seed(1);
  for (const int64_t num_experts : {1, 3, 7}) {
    for (int64_t k = 1; k <= num_experts; k += 2) {
      for (const auto weights : {RoutingWeights::AsTheyAre, RoutingWeights::OfSumOne}) {
        const Mixture model(num_experts);
        const auto states = at::randn({kStates, kStateWidth}, at::kDouble);
        const auto logits = at::randn({kStates, num_experts}, at::kDouble);
        const auto probe = at::randn_like(states);
        expect_alike(pass_of_experts(model, states, logits, k, weights, probe),
                     expected_of(model, states, logits, k, weights, probe));
      }
    }
  }
}

TEST(Experts, WithoutTokensGetZeroGradients) {
  at::manual_seed(2);
  const Mixture model(4);
  const auto states = at::randn({kStates, kStateWidth}, at::kDouble);
  auto logits = at::randn({kStates, 4}, at::kDouble);
  logits.select(1, 2).fill_(-50);  // nobody is sent to the third
  const auto probe = at::randn_like(states);
  const auto ours = pass_of_experts(model, states, logits, 2, RoutingWeights::OfSumOne, probe);
  for (size_t i = 6; i < 9; ++i) EXPECT_EQ(ours.weights[i].abs().max().item<double>(), 0);
  expect_alike(ours, expected_of(model, states, logits, 2, RoutingWeights::OfSumOne, probe));
  logits.select(1, 1).fill_(50);  // everybody is sent to the second
  const Mixture other(4);
  expect_alike(pass_of_experts(other, states, logits, 1, RoutingWeights::AsTheyAre, probe),
               expected_of(other, states, logits, 1, RoutingWeights::AsTheyAre, probe), 1e-5);
}

TEST(Experts, TakeTheLowestIdsOfEquals) {
  const auto even = route(at::zeros({3, 6}), 4, RoutingWeights::AsTheyAre);
  EXPECT_TRUE(at::equal(even.ids, at::arange(4).expand({3, 4})));
  auto logits = at::zeros({1, 5});
  logits[0][3] = 1;
  const auto one = route(logits, 3, RoutingWeights::AsTheyAre);
  EXPECT_TRUE(at::equal(one.ids, at::tensor({3, 0, 1}, at::kLong).view({1, 3})));
}

TEST(Experts, Bf16OnesAreThoseOfFp32Rounded) {
  at::manual_seed(3);
  const Mixture narrow(5, at::kBFloat16);
  Mixture wide(0);
  for (const auto& [gate, up, down] : narrow.all) {
    const auto copy = [](const ParamPtr& from) { return param(from->value().to(at::kDouble)); };
    wide.all.push_back({copy(gate), copy(up), copy(down)});
  }
  const auto states = at::randn({kStates, kStateWidth}).to(at::kBFloat16).to(at::kFloat);
  const auto logits = at::randn({kStates, 5});
  const auto probe = at::randn_like(states);
  const auto ours = pass_of_experts(narrow, states, logits, 2, RoutingWeights::OfSumOne, probe);
  EXPECT_EQ(ours.out.scalar_type(), at::kBFloat16);
  const auto theirs = expected_of(wide, states.to(at::kDouble), logits.to(at::kDouble), 2,
                                  RoutingWeights::OfSumOne, probe.to(at::kDouble));
  EXPECT_LE((ours.out.to(at::kDouble) - theirs.out).abs().max().item<double>(),
            2e-2 * theirs.out.abs().max().item<double>());
  EXPECT_LE((ours.states.grad().to(at::kDouble) - theirs.states.grad()).abs().max().item<double>(),
            3e-2 * theirs.states.grad().abs().max().item<double>());
}

TEST(Experts, AddNoGradientToFrozenMatrices) {
  at::manual_seed(4);
  const Mixture model(3), frozen = model;
  for (const auto& expert : frozen.all) {
    for (const auto& matrix : {expert.gate, expert.up, expert.down}) matrix->freeze();
  }
  const auto states = at::randn({kStates, kStateWidth}, at::kDouble);
  const auto logits = at::randn({kStates, 3}, at::kDouble);
  const auto probe = at::randn_like(states);
  const auto ours = pass_of_experts(frozen, states, logits, 2, RoutingWeights::AsTheyAre, probe);
  const auto theirs = expected_of(model, states, logits, 2, RoutingWeights::AsTheyAre, probe);
  EXPECT_LE((ours.states.grad() - theirs.states.grad()).abs().max().item<double>(), 1e-6);
  for (const auto& grad : ours.weights) EXPECT_EQ(grad.min().item<double>(), 77);  // as it was
}

TEST(Experts, FrozenMatricesLetTheOthersTrain) {
  at::manual_seed(6);
  const Mixture model(3);
  model.all[0].gate->freeze();
  model.all[1].gate->freeze();
  model.all[1].up->freeze();
  model.all[1].down->freeze();
  const auto states = at::randn({kStates, kStateWidth}, at::kDouble);
  const auto logits = at::randn({kStates, 3}, at::kDouble);
  const auto probe = at::randn_like(states);
  const auto ours = pass_of_experts(model, states, logits, 2, RoutingWeights::AsTheyAre, probe);
  const auto theirs = expected_of(model, states, logits, 2, RoutingWeights::AsTheyAre, probe);
  const std::vector<size_t> frozen{0, 3, 4, 5};  // gate, up and down of each expert
  for (size_t i = 0; i < ours.weights.size(); ++i) {
    if (std::find(frozen.begin(), frozen.end(), i) != frozen.end()) {
      EXPECT_EQ(ours.weights[i].min().item<double>(), 77) << i;  // as it was
    } else {
      expect_grads_near({{ours.weights[i], theirs.weights[i]}}, 1e-6);
    }
  }
}

/// Models of ranks with the same matrices, each with gradients of its own.
std::vector<Mixture> copies_of(const Mixture& model, int number) {
  std::vector<Mixture> out(static_cast<size_t>(number), Mixture(0));
  for (auto& copy : out) {
    for (const auto& [gate, up, down] : model.all) {
      copy.all.push_back({param(gate->value()), param(up->value()), param(down->value())});
    }
  }
  return out;
}

/// Tokens of each of some ranks, and what the router says of them.
struct Dealt {
  std::vector<at::Tensor> states, logits, probes;

  void add(int64_t tokens, int64_t num_experts) {
    states.push_back(at::randn({tokens, kStateWidth}));
    logits.push_back(at::randn({tokens, num_experts}));
    probes.push_back(at::randn({tokens, kStateWidth}));
  }
};

// Whatever the router says: to all, to one expert, to none of a rank's; and without any token.
TEST(Experts, DealtOutComputeAsRanksThatHaveAll) {
  at::manual_seed(7);
  constexpr int kRanks = 2;
  constexpr int64_t kExperts = 6, kHere = kExperts / kRanks;
  const Mixture model(kExperts, at::kFloat);
  std::vector<Dealt> cases(4);
  for (auto& it : cases) it.add(kStates, kExperts);
  for (size_t i = 0; i < cases.size(); ++i) cases[i].add(i == 3 ? 0 : 5, kExperts);
  for (auto& logits : cases[1].logits) logits.select(1, 4).fill_(50);
  for (auto& logits : cases[2].logits) logits.narrow(1, 0, kHere).fill_(-50);
  for (size_t i = 0; i < cases.size(); ++i) {
    for (const bool joined : {false, true}) {
      SCOPED_TRACE(testing::Message() << "case " << i << (joined ? ", joined" : ""));
      const int64_t k = i == 1 ? 1 : 2;
      const auto& [states, logits, probes] = cases[i];
      const auto alone = copies_of(model, kRanks), dealt = copies_of(model, kRanks);
      std::vector<Pass> theirs(kRanks), ours(kRanks);
      comm::run_thread_ranks(kRanks, [&](const comm::Group& group) {
        at::set_num_threads(1);
        const auto rank = static_cast<size_t>(group.rank());
        const auto pass = [&](const Mixture& of, const ExpertRanks& ranks) {
          Pass out;
          out.states = states[rank].clone().requires_grad_(true);
          out.logits = logits[rank].clone().requires_grad_(true);
          const auto routing = route(out.logits, k, RoutingWeights::OfSumOne);
          out.out = experts(out.states, routing, of.all, "silu", {}, ranks);
          backward((out.out * probes[rank]).sum());
          return out;
        };
        theirs[rank] = pass(alone[rank], {});
        ours[rank] = pass(dealt[rank], {group, joined});
      });
      const auto expect = [&](const at::Tensor& a, const at::Tensor& b, const char* what) {
        EXPECT_TRUE(at::allclose(a, b, 1e-5, 1e-6)) << what;
      };
      for (size_t rank = 0; rank < kRanks; ++rank) {
        expect(ours[rank].out, theirs[rank].out, "results");
        expect(ours[rank].states.grad(), theirs[rank].states.grad(), "gradient of states");
        expect(ours[rank].logits.grad(), theirs[rank].logits.grad(), "gradient of logits");
      }
      for (int64_t e = 0; e < kExperts; ++e) {
        const auto at = static_cast<size_t>(e);
        const auto &one = alone[0].all[at], &two = alone[1].all[at],
                   &here = dealt[static_cast<size_t>(e / kHere)].all[at];
        for (const auto member : {&ExpertParams::gate, &ExpertParams::up, &ExpertParams::down}) {
          const auto& got = *(here.*member);
          const auto sum = (one.*member)->grad() + (two.*member)->grad();
          // What has no rows at all may be left to who zeroes it.
          expect(got.grad_written() ? got.grad() : at::zeros_like(sum), sum, "gradient of weights");
        }
      }
    }
  }
}

TEST(Experts, AreBalancedByTheirSharesAndProbabilities) {
  at::manual_seed(5);
  const int64_t k = 2, E = 4;
  const auto logits = at::randn({kStates, E});
  const auto real = at::tensor({1, 1, 0, 1, 1, 1, 0, 1, 1}, at::kLong) == 1;
  const auto routing = route(logits, k, RoutingWeights::AsTheyAre);
  const auto sums = routing_sums(routing, real) + routing_sums(routing, real);  // of two layers
  double expected = 0;
  const auto count = real.sum().item<double>();
  for (int64_t e = 0; e < E; ++e) {
    const auto sent = ((routing.ids == e).sum(1) * real).sum().item<double>() / count;
    expected += sent * (routing.probs.select(1, e) * real).sum().item<double>() / count;
  }
  EXPECT_NEAR(balancing_loss(sums, k).item<double>(), E * expected, 1e-5);
  const auto even = route(at::zeros({E, E}), E, RoutingWeights::AsTheyAre);
  EXPECT_NEAR(balancing_loss(routing_sums(even, {}), E).item<double>(), E, 1e-6);
}

}  // namespace
}  // namespace convoy::nn
