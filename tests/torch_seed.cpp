// Every test draws torch's random numbers from the same seed: LibTorch's default generator starts
// at a random one, and what lies near a tolerance would pass on most days.
#include <ATen/CPUGeneratorImpl.h>
#include <gtest/gtest.h>

namespace {

class SeedOfEveryTest : public testing::EmptyTestEventListener {
  void OnTestStart(const testing::TestInfo&) override {
    auto generator = at::detail::getDefaultCPUGenerator();
    const std::lock_guard<std::mutex> lock(generator.mutex());
    generator.set_current_seed(1);
  }
};

[[maybe_unused]] const bool listens = [] {
  testing::UnitTest::GetInstance()->listeners().Append(new SeedOfEveryTest);
  return true;
}();

}  // namespace
