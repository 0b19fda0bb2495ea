#include "convoy/machine/binding.h"

#include <gtest/gtest.h>

#include "convoy/base/error.h"
#include "convoy/base/files.h"

namespace convoy::machine {
namespace {

using Shares = std::vector<std::vector<int>>;

TEST(Binding, ReadsWords) {
  EXPECT_EQ(parse_binding("node"), Binding::kNuma);
  EXPECT_THROW(parse_binding("socks"), UsageError);
}

TEST(Binding, SharesCoresWithoutCrossingNodesWhenItCan) {
  const Shares nodes = {{0, 1, 4, 5}, {2, 3, 6, 7}};
  EXPECT_EQ(share_cores(Binding::kCores, 2, nodes), nodes);
  EXPECT_EQ(share_cores(Binding::kCores, 4, nodes), (Shares{{0, 1}, {4, 5}, {2, 3}, {6, 7}}));
  EXPECT_EQ(share_cores(Binding::kCores, 3, nodes), (Shares{{0, 1}, {4, 5, 2}, {3, 6, 7}}));
  EXPECT_EQ(share_cores(Binding::kNuma, 3, nodes), (Shares{nodes[0], nodes[0], nodes[1]}));
  EXPECT_EQ(share_cores(Binding::kCores, 3, {{5, 6}}), (Shares{{5}, {5}, {6}}));
  EXPECT_EQ(share_cores(Binding::kNone, 2, nodes), (Shares{{}, {}}));
}

TEST(Binding, FindsNodesThatHaveCoresWeMayUse) {
  const auto folder = unique_folder("binding-test"), nodes = folder / "sys/devices/system/node";
  write_file(nodes / "node0/cpulist", "0-3\n");
  write_file(nodes / "node1/cpulist", "\n");  // memory only
  write_file(nodes / "node2/cpulist", "4-5\n");
  write_file(nodes / "node10/cpulist", "6-7\n");
  write_file(nodes / "possible", "0-10\n");
  EXPECT_EQ(numa_nodes({1, 2, 6, 7}, folder), (Shares{{1, 2}, {6, 7}}));
  EXPECT_EQ(numa_nodes({1, 2}, folder / "nothing"), (Shares{{1, 2}}));
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace convoy::machine
