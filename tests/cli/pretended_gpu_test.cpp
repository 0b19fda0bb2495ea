#include "tests/cli/command_testing.h"

namespace convoy {
namespace {

/// A machine with a GPU that torch cannot use: a namespace whose /dev has a file for one.
class PretendedGpu : public CommandTest {
 protected:
  void SetUp() override {
    CommandTest::SetUp();
    if (within("true") != 0) GTEST_SKIP() << "no /dev of its own: " << output_;
    make_sessions();
  }

  int within(const std::string& words) {
    write_file(folder_ / "words", words);
    return shell(
        "export convoy; unset CUDA_VISIBLE_DEVICES; rm -rf dev; mkdir dev; exec unshare -rm sh -c '"
        "for name in null zero full random urandom; do "
        "touch dev/$name && mount --bind /dev/$name dev/$name || exit 1; done; "
        "ln -s /proc/self/fd dev/fd && mkdir dev/shm && touch dev/nvidia0 && "
        "mount --rbind dev /dev && . ./words'");
  }
};

TEST_F(PretendedGpu, AutoTakesTheCpuAndSaysWhyAndCudaIsRefused) {
  ASSERT_EQ(within("$convoy train" + kTiny + "--max_steps 1"), 0) << output_;
  expect("warning: there is a GPU, but the CPU is used: torch");
  expect("if intended, set --device cpu");
  EXPECT_EQ(within("$convoy train" + kTiny + "--max_steps 1 --device cuda"), 2) << output_;
  expect("device = cuda was asked for, but torch");
  ASSERT_EQ(within("$convoy train" + kTiny + "--max_steps 1 --device cpu"), 0) << output_;
  EXPECT_EQ(output_.find("warning"), std::string::npos) << output_;
  ASSERT_EQ(within("CUDA_VISIBLE_DEVICES= $convoy train" + kTiny + "--max_steps 1"), 0) << output_;
  EXPECT_EQ(output_.find("warning"), std::string::npos) << "hidden on purpose: " << output_;
}

}  // namespace
}  // namespace convoy
