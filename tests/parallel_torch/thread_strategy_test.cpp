#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "convoy/base/error.h"
#include "convoy/parallel/strategy/strategy.h"
#include "tests/models/testing.h"

namespace convoy::parallel {
namespace {

/// Passes its input on, after a while.
class Slow : public nn::Block {
 public:
  explicit Slow(std::chrono::milliseconds pause) : Block("slow"), pause_(pause) {}
  nn::Bundle forward(const nn::Bundle& in, const nn::Context&) override {
    std::this_thread::sleep_for(pause_);
    return in;
  }

 private:
  std::chrono::milliseconds pause_;
};

TEST(ThreadStrategy, AReplicaWaitsForAnotherNoLongerThanTheTimeout) {
  const auto config = models::small_session({.ids = 10, .width = 8, .length = 4});
  int made = 0;
  const auto factory = [&] {
    auto blocks = models::make_session_model(config);
    const auto pause = made++ == 0 ? 0 : 3000;
    blocks.insert(blocks.begin(), std::make_shared<Slow>(std::chrono::milliseconds(pause)));
    return blocks;
  };
  const auto strategy =
      make_thread_strategy(factory, {at::kCPU, at::kCPU}, {}, 1, std::chrono::milliseconds(500));
  MicroBatch batch;
  batch.inputs["items"] = at::ones({2, 4}, at::kLong);
  batch.inputs["lengths"] = at::full({2}, 4, at::kLong);
  batch.samples = at::arange(2);
  EXPECT_THROW(strategy->step({{batch}, {batch}}, {}, {}), CommunicationError);
}

}  // namespace
}  // namespace convoy::parallel
