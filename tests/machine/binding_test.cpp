#include "convoy/machine/binding.h"

#include <gtest/gtest.h>

#include "convoy/base/error.h"
#include "convoy/base/files.h"

namespace convoy::machine {
namespace {

using Shares = std::vector<std::vector<int>>;

TEST(Binding, ReadsCoresAndWords) {
  EXPECT_EQ(parse_cores("0-2,8\n"), (std::vector<int>{0, 1, 2, 8}));
  EXPECT_EQ(cores_text({0, 1, 2, 8, 10, 11}), "0-2,8,10-11");
  for (const char* bad : {"a", "3-1", "-1", "1-", "0-99999999"}) {
    EXPECT_THROW(parse_cores(bad), UsageError) << bad;
  }
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
  const auto folder = unique_folder("binding-test");
  write_file(folder / "node0/cpulist", "0-3\n");
  write_file(folder / "node1/cpulist", "\n");  // memory only
  write_file(folder / "node2/cpulist", "4-5\n");
  write_file(folder / "node10/cpulist", "6-7\n");
  write_file(folder / "possible", "0-10\n");
  EXPECT_EQ(numa_nodes({1, 2, 6, 7}, folder), (Shares{{1, 2}, {6, 7}}));
  EXPECT_EQ(numa_nodes({1, 2}, folder / "nothing"), (Shares{{1, 2}}));
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace convoy::machine
