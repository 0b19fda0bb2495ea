#include <dlfcn.h>
#include <gtest/gtest.h>

#include <map>

#include "convoy/machine/gpus.h"

namespace convoy::machine {
namespace {

TEST(Nvml, MemoryAndNvlinks) {
  // What is loaded already is found by its soname, whatever the machine has.
  void* fake = ::dlopen(CONVOY_BINARY_DIR "/tests/libnvidia-ml.so.1", RTLD_NOW);
  ASSERT_NE(fake, nullptr) << ::dlerror();
  Gpus gpus;
  gpus.gpus.resize(2);
  gpus.gpus[0].pci = "0000:a0:00.0";
  gpus.gpus[0].pcie_lanes = 16;
  gpus.gpus[1].pci = "0000:a1:00.0";
  gpus.links = {{0, 1, "same PCIe root"}};
  add_nvml(gpus);
  ::dlclose(fake);
  EXPECT_EQ(gpus.driver, "999.1");
  ASSERT_EQ(gpus.gpus.size(), 4u);
  EXPECT_EQ(gpus.gpus[0].name, "Fake 0");
  EXPECT_EQ(gpus.gpus[0].pcie_lanes, 16);
  EXPECT_EQ(gpus.gpus[3].pci, "0000:a3:00.0");
  EXPECT_EQ(gpus.gpus[3].memory_bytes, int64_t{80} << 30);
  EXPECT_EQ(gpus.gpus[3].free_bytes, int64_t{70} << 30);
  EXPECT_EQ(gpus.gpus[0].nvlinks, 2);
  EXPECT_EQ(gpus.gpus[3].nvlinks, 4);
  std::map<std::pair<int, int>, std::string> paths;
  for (const auto& link : gpus.links) paths[{link.a, link.b}] = link.path;
  EXPECT_EQ(gpus.links.size(), 2u);
  EXPECT_EQ((paths[{0, 1}]), "NVLink x2");
  EXPECT_EQ((paths[{2, 3}]), "NVLink switch x4");
}

}  // namespace
}  // namespace convoy::machine
