#include <gtest/gtest.h>

#include "convoy/base/files.h"
#include "convoy/base/text.h"
#include "convoy/launch/supervise/agent.h"
#include "convoy/machine/binding.h"
#include "convoy/machine/limits.h"

namespace convoy::launch {
namespace {

TEST(Binding, HoldsInTheRanks) {
  const auto folder = unique_folder("binding-test");
  LaunchOptions options;
  options.num_ranks = 2;
  options.binding = machine::Binding::kCores;
  options.command = {
      "/bin/sh", "-c",
      "grep Cpus_allowed_list /proc/self/status | cut -f 2 > " + folder.string() + "/$RANK"};
  ASSERT_EQ(run_ranks(options), 0);
  const auto expected =
      machine::share_cores(machine::Binding::kCores, 2, machine::numa_nodes(machine::own_cores()));
  for (size_t rank = 0; rank < 2; ++rank) {
    EXPECT_EQ(trim(read_file(folder / fmt::format("{}", rank))),
              compact_numbers(expected[rank], ","));
  }
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace convoy::launch
