#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "convoy/wrappers/own_loop.h"

namespace convoy::wrappers {
namespace {

TEST(OwnThreads, KeepTheThreadCountOfTheJob) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");  // world() is made once in a process
  EXPECT_EXIT(
      {
        const int wanted = at::get_num_threads() + 1;
        ::setenv("OMP_NUM_THREADS", std::to_string(wanted).c_str(), 1);
        world();
        std::exit(at::get_num_threads() == wanted ? 0 : 1);
      },
      ::testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace convoy::wrappers
