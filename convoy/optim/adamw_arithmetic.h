#pragma once

#include <cmath>

#include "convoy/base/lanes.h"
#include "convoy/optim/optimizer.h"

// AdamW's arithmetic on lanes, whatever its moments are kept in. Files that use it are compiled
// with -fno-math-errno: a root that sets errno is not vectorised.
namespace convoy::optim {

struct AdamWFactors {
  float grad, kept, first, second, second_kept, root, epsilon, rate;
};

inline AdamWFactors adamw_factors(const Settings& settings, double weight_decay,
                                  const StepNumbers& numbers) {
  const auto correction = [&](double beta) {
    return 1 - std::pow(beta, static_cast<double>(numbers.step));
  };
  const auto narrow = [](double value) { return static_cast<float>(value); };
  return {.grad = narrow(1 / numbers.grad_divisor),
          .kept = narrow(1 - numbers.learning_rate * weight_decay),
          .first = narrow(1 - settings.beta1),
          .second = narrow(1 - settings.beta2),
          .second_kept = narrow(settings.beta2),
          .root = narrow(1 / std::sqrt(correction(settings.beta2))),
          .epsilon = narrow(settings.epsilon),
          .rate = narrow(numbers.learning_rate / correction(settings.beta1))};
}

/// Updates weights and both moments; divides `grads` on the way.
[[gnu::always_inline]] inline void adamw_lanes(const AdamWFactors& by, lanes::Floats& weights,
                                               lanes::Floats& grads, lanes::Floats& first,
                                               lanes::Floats& second) {
  lanes::Floats root;
  grads *= by.grad;
  first += by.first * (grads - first);
  second = second * by.second_kept + by.second * grads * grads;
  for (int lane = 0; lane < lanes::kLanes; ++lane) root[lane] = std::sqrt(second[lane]);
  weights = weights * by.kept - by.rate * first / (root * by.root + by.epsilon);
}

}  // namespace convoy::optim
