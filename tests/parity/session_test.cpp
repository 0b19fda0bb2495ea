#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>

#include "convoy/models/session/session.h"
#include "tests/parity/reference.h"

// The fixtures hold what PyTorch, Hugging Face's bodies and RecTools' computed from the same
// weights and data; make_fixtures.py and make_rectools_fixtures.py beside them wrote them.
namespace convoy {
namespace {

constexpr int64_t kSteps = 20;

class SessionParity : public testing::TestWithParam<const char*> {
 protected:
  SessionParity() : file_(fixture(std::string("session_") + GetParam())) {
    models::SessionConfig config;
    config.item_feature = "item_id-list";
    config.features = {{"item_id-list", true, 60}};
    config.d_model = 16;
    config.max_length = 9;
    std::string name = GetParam();
    if (name.ends_with("_all")) {
      name.resize(name.size() - 4);
      config.features.push_back({"kind-list", true, 7});
      config.features.push_back({"price-list", false});
    }
    if (name.starts_with("gelu")) {
      config.activation = name;
    } else {
      config.body = name.substr(0, name.find('_'));
      if (name.ends_with("gbce")) config.loss = "gbce";
      config.weight_tying = !name.ends_with("untied");
      config.n_negatives = 5;
      config.loss_options["gbce_t"] = 0.6;
      config.mlm_probability = 0.3;
      config.plm_probability = 0.3;
      if (name.ends_with("rtd")) config.masking = "rtd";
      if (name.starts_with("xlnet")) config.masking = name.substr(name.size() - 3);
    }
    config.time_feature = "time";
    config.dropout = 0;
    replica_ = with_weights(file_, models::make_session_model(config));
    size_t num_weights = 0;
    for (const auto& [key, entry] : file_.entries()) num_weights += key.starts_with("weight.");
    EXPECT_EQ(replica_->flat().all_slots().size(), num_weights);
  }

  parallel::MicroBatch batch(int64_t step) {
    auto ids = tensor(file_, fmt::format("ids.{}", step));
    const auto times = 1700000000 + (ids * ids * 40).cumsum(1);
    return {{{"item_id-list", ids},
             {"time", times},
             {"kind-list", at::where(ids > 0, ids % 6 + 1, at::zeros_like(ids))},
             {"price-list", (ids % 11).to(at::kFloat) / 10},
             {"lengths", tensor(file_, fmt::format("lengths.{}", step))}},
            at::arange(ids.size(0), at::kLong)};
  }

  parallel::StepResult step(int64_t index) {
    optim::LrSchedule schedule{"linear", 1e-2, 0, kSteps};
    parallel::OptimizerOptions optimizer;
    optimizer.weight_decay = 0.05;
    return replica_->step({batch(index)}, {0, index, schedule.at(index), index}, optimizer);
  }

  formats::SafetensorsFile file_;
  std::unique_ptr<parallel::Replica> replica_;
};

TEST_P(SessionParity, FirstLossAndEveryGradient) {
  auto expected = tensor(file_, "losses")[0].item<double>();
  auto result = step(0);
  EXPECT_NEAR(result.loss() / expected, 1, 1e-6);
  EXPECT_NEAR(result.grad_norm / tensor(file_, "norms")[0].item<double>(), 1, 1e-5);
  auto& flat = replica_->flat();
  double torch_worst = 0;
  for (const auto& unit : flat.units()) {
    double block_squares = 0;
    for (const auto& slot : unit.slots) {
      auto exact = tensor(file_, "grad." + slot.param->spec().name);
      block_squares += exact.square().sum().item<double>();
    }
    // ALBERT's layers share parameters, each of which is a unit of its own.
    const bool shared = unit.slots[0].param->spec().name.find("layer_groups") != std::string::npos;
    const double block_norm =
        shared ? tensor(file_, "norms")[0].item<double>() : std::sqrt(block_squares);
    for (const auto& slot : unit.slots) {
      const auto& name = slot.param->spec().name;
      auto exact = tensor(file_, "grad." + name);
      // Relative to the element, or to a part of the block's norm where the element is smaller.
      auto error = [&](const at::Tensor& gradient, double part) {
        auto scale = exact.abs().clamp_min(part * block_norm);
        return ((gradient.to(at::kDouble) - exact).abs() / scale).max().item<double>();
      };
      auto ours = parallel::FlatBuffers::view(flat.grads(), slot) / result.count;
      EXPECT_LE(error(ours, 1e-2), 1e-5) << name;
      // Elements of 1e-3 of the norm are sums that nearly cancel: fp32 leaves up to 1e-4 of them,
      // in PyTorch's own gradients too.
      EXPECT_LE(error(ours, 1e-3), 1e-4) << name;
      torch_worst = std::max(torch_worst, error(tensor(file_, "rounded." + name), 1e-3));
    }
  }
  EXPECT_GT(torch_worst, 5e-6) << "PyTorch does better now: so should we";
}

TEST_P(SessionParity, TwentyAdamWSteps) {
  auto losses = tensor(file_, "losses");
  auto norms = tensor(file_, "norms");
  for (int64_t i = 0; i < kSteps; ++i) {
    auto result = step(i);
    EXPECT_NEAR(result.loss() / losses[i].item<double>(), 1, 1e-4) << "step " << i;
    EXPECT_NEAR(result.grad_norm / norms[i].item<double>(), 1, 1e-3) << "step " << i;
  }
}

INSTANTIATE_TEST_SUITE_P(Bodies, SessionParity,
                         testing::Values("gelu", "gelu_new", "gpt2_untied", "bert", "albert",
                                         "electra", "electra_rtd", "xlnet_mlm", "xlnet_clm",
                                         "xlnet_plm", "sasrec", "ligr", "hstu", "sasrec_gbce",
                                         "xlnet_clm_all", "xlnet_plm_all", "electra_rtd_all"));

}  // namespace
}  // namespace convoy
