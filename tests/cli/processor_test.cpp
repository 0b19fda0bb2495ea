#include "convoy/tuning/matrix_kernels.h"
#include "tests/cli/command_testing.h"

namespace convoy {
namespace {

class Processor : public CommandTest {};

TEST_F(Processor, MklAsksTheProgramWhichKernelsItMayTake) {
  // ld.so says where each library's symbols were found.
  ASSERT_EQ(shell("LD_BIND_NOW=1 LD_DEBUG=bindings $convoy --version 2>&1 | "
                  "grep mkl_serv_intel_cpu_true | grep libtorch_cpu | grep bin/convoy"),
            0)
      << "the program's answer is not seen: " << output_;
}

TEST_F(Processor, MklKeepsItsKernelsOnIntelAndWhereInstructionsLack) {
  using tuning::answer_to_mkl;
  for (const bool allowed : {false, true}) {
    EXPECT_TRUE(answer_to_mkl(true, allowed, true)) << "MKL's own answer on Intel's";
    EXPECT_TRUE(answer_to_mkl(true, allowed, false));
    EXPECT_FALSE(answer_to_mkl(false, allowed, false));
  }
  EXPECT_TRUE(answer_to_mkl(false, true, true));
  EXPECT_FALSE(answer_to_mkl(false, false, true)) << "CONVOY_FAST_MKL=0";
}

TEST_F(Processor, DoctorSaysWhichKernels) {
  ASSERT_EQ(run("doctor --quick"), 0) << output_;
  expect("fp32 products MKL's");
  ASSERT_EQ(shell("CONVOY_FAST_MKL=0 $convoy doctor --quick"), 0) << output_;
  expect("MKL's own choice");
}

TEST_F(Processor, ThreadsSpinLittleUnlessThePersonSaysOtherwise) {
  const std::string show = "OMP_DISPLAY_ENV=verbose $convoy doctor --quick";
  ASSERT_EQ(shell("unset GOMP_SPINCOUNT OMP_WAIT_POLICY; " + show), 0) << output_;
  expect("GOMP_SPINCOUNT = '1000'");
  for (const char* command :
       {"train", "eval", "predict", "generate", "estimate", "schedule", "bench"}) {
    ASSERT_EQ(shell("unset GOMP_SPINCOUNT OMP_WAIT_POLICY; OMP_DISPLAY_ENV=verbose $convoy " +
                    std::string(command) + " --help"),
              0)
        << output_;
    expect("GOMP_SPINCOUNT = '1000'");
  }
  ASSERT_EQ(shell("unset OMP_WAIT_POLICY; GOMP_SPINCOUNT=77 " + show), 0) << output_;
  expect("GOMP_SPINCOUNT = '77'");
  ASSERT_EQ(shell("unset GOMP_SPINCOUNT; OMP_WAIT_POLICY=passive " + show), 0) << output_;
  expect("GOMP_SPINCOUNT = '0'");
  ASSERT_EQ(shell("unset GOMP_SPINCOUNT OMP_WAIT_POLICY; $convoy train --epoch 1 syn"), 2)
      << "arguments are kept";
  expect("convoy train --help");
}

}  // namespace
}  // namespace convoy
