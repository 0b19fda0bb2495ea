#include "convoy/comm/agree.h"

#include "convoy/base/error.h"
#include "tests/comm/ranks_testing.h"

namespace convoy::comm {
namespace {

std::string message_on(Group group, const std::vector<std::string>& entries) {
  try {
    check_agreement(group, entries, "module");
  } catch (const UsageError& error) {
    return error.what();
  }
  return "";
}

TEST(Agreement, NamesTheFirstEntryInWhichARankDiffersOnAllRanks) {
  auto try_ranks = [](const std::function<void(int, const std::function<void(Group)>&)>& run) {
    run(3, [](Group group) {
      EXPECT_EQ(message_on(group, {"a [2]", "b [3]"}), "");
      std::vector<std::string> entries{"a [2]", "b [3]", "c [4]"};
      if (group.rank() == 2) entries[1] = "b [5]";
      EXPECT_EQ(message_on(group, entries),
                "[comm] the module of rank 2 and of rank 0 differ; got b [5] on rank 2, b [3] on "
                "rank 0; expected the same on all ranks");
      if (group.rank() != 2) entries[1] = "b [5]";
      if (group.rank() == 1) entries.pop_back();
      EXPECT_EQ(message_on(group, entries),
                "[comm] the module of rank 1 and of rank 0 differ; got nothing more on rank 1, c "
                "[4] on rank 0; expected the same on all ranks");
    });
  };
  try_ranks([](int size, const auto& work) { run_thread_ranks(size, work); });
  try_ranks([](int size, const auto& work) { run_gloo_ranks(size, work); });
}

}  // namespace
}  // namespace convoy::comm
