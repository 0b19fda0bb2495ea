#include "convoy/machine/cores.h"

#include <gtest/gtest.h>
#include <sched.h>

#include "convoy/base/error.h"
#include "convoy/base/files.h"
#include "convoy/machine/gpus.h"

namespace convoy::machine {
namespace {

TEST(Gpus, AreCountedAsCudaWould) {
  const auto dev = unique_folder("devices-test");
  EXPECT_EQ(device_files(dev / "missing"), 0);
  for (const char* name : {"nvidia0", "nvidia1", "nvidia2", "nvidiactl", "nvidia-uvm", "null"}) {
    write_file(dev / name, "");
  }
  EXPECT_EQ(device_files(dev), 3);
  EXPECT_EQ(count_gpus(nullptr, 3), 3);
  EXPECT_EQ(count_gpus("", 3), 0);
  EXPECT_EQ(count_gpus("2", 3), 1);
  EXPECT_EQ(count_gpus("0, 2", 3), 2);
  EXPECT_EQ(count_gpus("1,-1,0", 3), 1);
  EXPECT_EQ(count_gpus("0,7,1", 3), 1);
  EXPECT_EQ(count_gpus("NoDevFiles", 3), 0);
  EXPECT_EQ(count_gpus("GPU-8f3c,GPU-11aa", 3), 2);
  std::filesystem::remove_all(dev);
}

TEST(Cores, GiveTheNumberOfRanks) {
  EXPECT_EQ(resolve_num_ranks("3"), 3);
  EXPECT_GE(resolve_num_ranks("cpu"), 1);
  EXPECT_GE(resolve_num_ranks("auto"), 1);
  for (const char* text : {"0", "-1", "two", "", "2.5", "99999"}) {
    EXPECT_THROW(resolve_num_ranks(text), UsageError) << text;
  }
}

TEST(Cores, BoundProcessCountsItsOwn) {
  cpu_set_t before, one;
  ASSERT_EQ(::sched_getaffinity(0, sizeof before, &before), 0);
  CPU_ZERO(&one);
  CPU_SET(own_cores().front(), &one);
  ASSERT_EQ(::sched_setaffinity(0, sizeof one, &one), 0);
  EXPECT_EQ(usable_cores(), 1);
  EXPECT_EQ(cores_per_rank(1), 1);
  ::sched_setaffinity(0, sizeof before, &before);
  EXPECT_EQ(cores_per_rank(1), usable_cores());
  EXPECT_EQ(cores_per_rank(100000), 1);
}

}  // namespace
}  // namespace convoy::machine
