#include "convoy/conformance/contract.h"

#include <fmt/format.h>

#include <algorithm>

namespace convoy::conformance {

namespace {

/// Tolerances of fp32 trainings that add in another order.
constexpr Tolerances kRounding{.first_loss = 1e-6,
                               .losses = 1e-4,
                               .first_norm = 1e-5,
                               .norms = 1e-3,
                               .gradients = 1e-4,
                               .weights = 1e-5};

/// Tolerances in bf16 and fp16, whose products have 8 and 11 significant bits.
constexpr Tolerances kHalfPrecision{.first_loss = 2e-3,
                                    .losses = 2e-2,
                                    .first_norm = 2e-2,
                                    .norms = 1e-1,
                                    .gradients = 5e-2,
                                    .weights = 1e-3};

/// Tolerances in bf16 and fp16 where each matrix product is the same as on one device.
constexpr Tolerances kSameProducts{.first_loss = 1e-5,
                                   .losses = 1e-3,
                                   .first_norm = 1e-4,
                                   .norms = 2e-3,
                                   .gradients = 1e-3,
                                   .weights = 1e-3};

/// Reason why a layout adds in another order than one device; "" where it does not.
std::string reason_of(const LayoutFacts& facts) {
  const auto& split = facts.split;
  if (split.ranks.tensor > 1) return "tensor ranks add parts of products";
  if (split.ranks.context > 1) return "context ranks add parts of rows";
  if (split.expert_joined) return "expert ranks multiply the rows of all at once";
  if (split.ranks.data() > split.ranks.expert && split.ranks.expert > 1) {
    return "ranks with the same experts add in turn";
  }
  if (split.ranks.expert > 1 && split.micro_batches > 1) {
    return "expert ranks add the rows of a micro-batch first";
  }
  if (split.ranks.expert > 1) return "rows of expert ranks lie at other places in memory";
  if (split.ranks.pipeline > 1 && facts.shares_blocks)
    return "stages that share a parameter add in turn";
  if (split.ranks.data() > 1 && split.shard_ranks() > 0) return "state replicas add in turn";
  const bool reduces_each = split.reduces_each_shard() && split.ranks.pipeline == 1;
  if (split.ranks.data() > 1 && split.micro_batches > 1 && !reduces_each) {
    return "each rank adds its micro-batches first";
  }
  if (split.ranks.data() > 2 && facts.over_network)
    return "the network's engine adds in its own order";
  if (split.ranks.data() > 1 && reduces_each && facts.over_network) {
    return "the network's engine adds over ranks first";
  }
  return facts.on_gpu ? "a GPU's products are not repeatable" : "";
}

void check(std::vector<std::string>& out, const char* what, const Gap& gap, double most) {
  if (gap.size <= most) return;
  out.push_back(
      fmt::format("{} differs by {:.1e} ({}); at most {:.0e}", what, gap.size, gap.where, most));
}

}  // namespace

std::string Contract::to_text() const {
  return bits ? "bits" : "to rounding: " + reason;
}

Tolerances rounding_tolerances(bool half_precision, double learning_rate) {
  if (!half_precision) return kRounding;
  auto out = kHalfPrecision;
  out.weights = std::max(out.weights, learning_rate);
  return out;
}

Tolerances same_product_tolerances(double learning_rate) {
  auto out = kSameProducts;
  out.weights = std::max(out.weights, learning_rate);
  return out;
}

Tolerances widened(const Tolerances& most, const Difference& one, const Difference& other,
                   double part) {
  constexpr double kLimit = 0.5;
  const auto wider = [&](double tolerance, Gap Difference::* gap) {
    return std::max(tolerance, std::min(part * ((one.*gap).size + (other.*gap).size), kLimit));
  };
  Tolerances out{.first_loss = wider(most.first_loss, &Difference::first_loss),
                 .losses = wider(most.losses, &Difference::losses),
                 .first_norm = wider(most.first_norm, &Difference::first_norm),
                 .norms = wider(most.norms, &Difference::norms),
                 .gradients = wider(most.gradients, &Difference::gradients),
                 .weights = wider(most.weights, &Difference::weights)};
  out.norms = std::max(out.norms, wider(most.norms, &Difference::gradients));
  return out;
}

Contract contract_of(const LayoutFacts& facts) {
  auto reason = reason_of(facts);
  if (reason.empty()) return {};
  const bool same_products = facts.split.ranks.tensor == 1 && facts.split.ranks.context == 1 &&
                             !facts.split.expert_joined && !facts.on_gpu;
  return {.bits = false,
          .at_most = facts.half_precision && same_products
                         ? same_product_tolerances(facts.learning_rate)
                         : rounding_tolerances(facts.half_precision, facts.learning_rate),
          .same_products = same_products,
          .reason = std::move(reason)};
}

std::vector<std::string> broken(const Contract& contract, const Difference& difference) {
  std::vector<std::string> out;
  if (contract.bits && difference.same_bits) return out;
  const auto& most = contract.at_most;
  check(out, "the first loss", difference.first_loss, most.first_loss);
  check(out, "a later loss", difference.losses, most.losses);
  check(out, "the first gradient norm", difference.first_norm, most.first_norm);
  check(out, "a later gradient norm", difference.norms, most.norms);
  check(out, "the gradient of a parameter", difference.gradients, most.gradients);
  check(out, "a weight", difference.weights, most.weights);
  if (contract.bits && out.empty()) out.emplace_back("an optimizer state differs");
  return out;
}

}  // namespace convoy::conformance
