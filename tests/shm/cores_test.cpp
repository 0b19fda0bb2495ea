#include "convoy/shm/cores.h"

#include <gtest/gtest.h>

namespace convoy::shm {
namespace {

TEST(Cores, AreCountedWithinWhatAContainerMayUse) {
  EXPECT_TRUE(have_cores(4, 64, /*quota=*/0));
  EXPECT_FALSE(have_cores(65, 64, 0));
  EXPECT_FALSE(have_cores(4, 64, 2)) << "docker run --cpus 2";
  EXPECT_TRUE(have_cores(2, 64, 2));
  EXPECT_FALSE(have_cores(3, 64, 2.5));
  EXPECT_FALSE(have_cores(4, 2, 8));
}

}  // namespace
}  // namespace convoy::shm
