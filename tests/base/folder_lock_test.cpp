#include "convoy/base/folder_lock.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

#include "convoy/base/error.h"
#include "convoy/base/files.h"
#include "convoy/base/host_name.h"

namespace convoy {
namespace {

namespace fs = std::filesystem;

TEST(FolderLocks, LastUntilTheirProcessExitsOrIsKilled) {
  const auto folder = unique_folder("convoy-test");
  int ready[2];
  ASSERT_EQ(::pipe(ready), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    const FolderLock lock(folder);
    const char held = lock.held() ? 1 : 0;
    if (::write(ready[1], &held, 1) == 1) ::pause();
    ::_exit(0);
  }
  char held = 0;
  ASSERT_EQ(::read(ready[0], &held, 1), 1);
  EXPECT_EQ(held, 1);
  const FolderLock refused(folder / ".");
  EXPECT_FALSE(refused.held());
  EXPECT_EQ(refused.holder(), fmt::format("process {} on {}", child, host_name()));
  ::kill(child, SIGKILL);
  ASSERT_EQ(::waitpid(child, nullptr, 0), child);
  {
    const FolderLock mine(folder);
    EXPECT_TRUE(mine.held());
    const FolderLock again(folder / "." / "");
    EXPECT_TRUE(again.held()) << "the same process";
    EXPECT_EQ(read_file(folder / ".lock"),
              fmt::format("process {} on {}\n", ::getpid(), host_name()));
  }
  EXPECT_TRUE(fs::is_empty(folder)) << "a lock that is not held leaves nothing";
  fs::remove_all(folder);
  ::close(ready[0]);
  ::close(ready[1]);
}

TEST(FolderLocks, AFolderThatWasMovedIsNotTheOneInItsPlace) {
  const auto root = unique_folder("convoy-test"), folder = root / "out";
  const FolderLock lock(folder);
  EXPECT_TRUE(lock.in_place());
  fs::rename(folder, root / "moved");
  EXPECT_TRUE(lock.held());
  EXPECT_FALSE(lock.in_place());
  const FolderLock another(folder);
  EXPECT_TRUE(another.in_place()) << "of the same process: it must not share the one that moved";
  EXPECT_TRUE(fs::exists(folder / ".lock"));
  fs::remove_all(root);
}

TEST(FolderLocks, AFolderThatCannotBeWrittenIsNamed) {
  try {
    const FolderLock lock("/proc/nope");
    FAIL();
  } catch (const FileError& error) {
    EXPECT_NE(std::string(error.what()).find("/proc/nope"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace convoy
