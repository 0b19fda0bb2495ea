#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <fstream>
#include <functional>
#include <optional>

#include "convoy/base/error.h"
#include "convoy/base/files.h"
#include "convoy/base/host_name.h"

// A process that is killed at any point of replacing a folder loses nothing. The calls that change
// names are caught here, on their way from the library to the kernel.
namespace {

int calls_left = -1;    // before the process is killed; -1: never
int renames_left = -1;  // before one fails
bool swaps_names = true;
int folders_listed = 0;

void count_call() {
  if (calls_left >= 0 && calls_left-- == 0) ::raise(SIGKILL);
}

}  // namespace

extern "C" {

int renameat2(int from_folder, const char* from, int to_folder, const char* to,
              unsigned flags) noexcept {
  count_call();
  const bool fails = renames_left >= 0 && renames_left-- == 0;
  if (fails || (flags != 0 && !swaps_names)) {
    errno = fails ? EIO : EINVAL;  // the latter is what NFS says
    return -1;
  }
  return static_cast<int>(::syscall(SYS_renameat2, from_folder, from, to_folder, to, flags));
}
int renameat(int from_folder, const char* from, int to_folder, const char* to) noexcept {
  return renameat2(from_folder, from, to_folder, to, 0);
}
int rename(const char* from, const char* to) noexcept {
  return renameat2(AT_FDCWD, from, AT_FDCWD, to, 0);
}
int unlinkat(int folder, const char* path, int flags) noexcept {
  count_call();
  return static_cast<int>(::syscall(SYS_unlinkat, folder, path, flags));
}

DIR* fdopendir(int folder) {
  ++folders_listed;
  return reinterpret_cast<DIR* (*)(int)>(::dlsym(RTLD_NEXT, "fdopendir"))(folder);
}
DIR* opendir(const char* path) {
  ++folders_listed;
  return reinterpret_cast<DIR* (*)(const char*)>(::dlsym(RTLD_NEXT, "opendir"))(path);
}

}  // extern "C"

namespace convoy {
namespace {

namespace fs = std::filesystem;

void put_run(const fs::path& place, const std::string& text) {
  AtomicFolder made(place);
  write_file(made.temporary() / "a", text);
  write_file(made.temporary() / "b", text);
  made.commit();
}

std::vector<std::string> names_in(const fs::path& folder) {
  std::vector<std::string> out;
  for (const auto& entry : fs::directory_iterator(folder)) {
    out.push_back(entry.path().filename().string());
  }
  return out;
}

/// Does `work` in a process that is killed at its call number `last`; false when it has not as
/// many.
bool killed_at(int last, const std::function<void()>& work) {
  const pid_t child = ::fork();
  if (child == 0) {
    calls_left = last;
    work();
    ::_exit(0);
  }
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFSIGNALED(status) ? WTERMSIG(status) == SIGKILL : WEXITSTATUS(status) == 0);
  return WIFSIGNALED(status);
}

class Unfinished : public ::testing::TestWithParam<bool> {
 protected:
  void SetUp() override { swaps_names = GetParam(); }
  void TearDown() override { swaps_names = true; }
};

TEST_P(Unfinished, AReplacedFolderSurvivesAKillAtEveryCall) {
  const auto folder = unique_folder("convoy-test");
  int last = 0;
  for (bool killed = true; killed; ++last) {
    put_run(folder / "run-1", "old");
    killed = killed_at(last, [&] { put_run(folder / "run-1", "new"); });
    remove_unfinished(folder, {"run-"});
    ASSERT_EQ(names_in(folder), std::vector<std::string>{"run-1"}) << "killed at call " << last;
    const auto kept = read_file(folder / "run-1/a");
    EXPECT_TRUE(kept == "old" || kept == "new") << kept;
    EXPECT_EQ(read_file(folder / "run-1/b"), kept) << "killed at call " << last;
    EXPECT_TRUE(killed || kept == "new");
  }
  EXPECT_GT(last, swaps_names ? 5 : 6) << "files, the folder's name, and the old one's removal";
  fs::remove_all(folder);
}

TEST_P(Unfinished, AFolderThatCannotTakeItsPlaceLeavesTheOldOne) {
  const auto folder = unique_folder("convoy-test");
  put_run(folder / "run-1", "old");
  {
    AtomicFolder made(folder / "run-1");
    renames_left = swaps_names ? 0 : 2;  // the swap, the old one's move, the new one's
    EXPECT_THROW(made.commit(), FileError);
  }
  EXPECT_EQ(read_file(folder / "run-1/a"), "old");
  EXPECT_EQ(names_in(folder).size(), 1);
  fs::remove_all(folder);
}

INSTANTIATE_TEST_SUITE_P(FileSystem, Unfinished, ::testing::Bool(), [](const auto& how) {
  return how.param ? "ThatSwapsNames" : "ThatDoesNot";
});

TEST(LeftOvers, ARemovedFolderIsWholeOrAbsent) {
  const auto folder = unique_folder("convoy-test");
  int last = 0;
  for (bool killed = true; killed; ++last) {
    put_run(folder / "run-1", "old");
    killed = killed_at(last, [&] { remove_whole(folder / "run-1"); });
    EXPECT_EQ(fs::exists(folder / "run-1/a"), fs::exists(folder / "run-1/b"));
    EXPECT_TRUE(killed || !fs::exists(folder / "run-1"));
    fs::remove_all(folder / "run-1");
    remove_unfinished(folder, {"run-"});
    EXPECT_TRUE(fs::is_empty(folder)) << "killed at call " << last;
  }
  EXPECT_GT(last, 3);
  fs::remove_all(folder);
}

TEST(LeftOvers, RemovesOnlyTemporariesOfTheNamedFiles) {
  const auto folder = unique_folder("convoy-test");
  const AtomicFile mine(folder / "model"), other(folder / "top.csv"), twice(folder / "model");
  EXPECT_NE(mine.temporary(), twice.temporary());
  auto host = host_name().substr(0, 20);
  std::replace_if(host.begin(), host.end(), [](char c) { return std::isalnum(c) == 0; }, '_');
  EXPECT_TRUE(mine.temporary().filename().string().starts_with(
      fmt::format(".model.{}-{}-", host, ::getpid())))
      << "hosts have processes of the same number: " << mine.temporary();
  const std::vector<fs::path> left{mine.temporary(), other.temporary(), twice.temporary(),
                                   folder / ".model.backup.tmp", folder / ".model.1.tmp"};
  for (const auto& path : left) write_file(path, "half");
  remove_unfinished(folder, {"model"});
  EXPECT_FALSE(fs::exists(left[0]));
  EXPECT_TRUE(fs::exists(left[1])) << "another program may be writing it";
  EXPECT_FALSE(fs::exists(left[2]));
  EXPECT_TRUE(fs::exists(left[3]) && fs::exists(left[4])) << "somebody's own files";
  fs::remove_all(folder);
}

TEST(LeftOvers, NextWriteRemovesTheTemporaryOfAKilledWriter) {
  const auto folder = unique_folder("convoy-test");
  const auto hour_ago = fs::file_time_type::clock::now() - std::chrono::hours(1);
  for (const char* name : {"top.csv", "exported"}) {
    const bool whole_folder = name == std::string("exported");
    const auto write = [&] {
      if (!whole_folder) return write_file(folder / name, "new");
      put_run(folder / name, "new");
    };
    const pid_t child = ::fork();
    if (child == 0) {
      std::optional<AtomicFile> file;
      std::optional<AtomicFolder> made;
      whole_folder ? (void)made.emplace(folder / name) : (void)file.emplace(folder / name);
      ::raise(SIGKILL);
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    ASSERT_EQ(names_in(folder).size(), 1U) << name;
    write();
    EXPECT_EQ(names_in(folder).size(), 2U) << "just begun, for all that is known";
    for (const auto& entry : fs::directory_iterator(folder)) {
      fs::last_write_time(entry.path(), hour_ago);
    }
    const AtomicFile alive(folder / "top.csv");
    fs::last_write_time(alive.temporary(), hour_ago);
    write_file(folder / ".top.csv.of-somebody.tmp", "");
    write();
    auto names = names_in(folder);
    std::sort(names.begin(), names.end());
    std::vector<std::string> expected{".top.csv.of-somebody.tmp",
                                      alive.temporary().filename().string(), name};
    std::sort(expected.begin(), expected.end());
    EXPECT_EQ(names, expected);
    for (const auto& each : names_in(folder)) fs::remove_all(folder / each);
  }
  fs::remove_all(folder);
}

TEST(AtomicFile, KeepsThePermissionsOfTheOldFile) {
  const auto folder = unique_folder("convoy-test");
  const auto mode_of = [](const fs::path& path) {
    return static_cast<int>(fs::status(path).permissions());
  };
  const auto path = folder / "secret";
  const auto before = ::umask(022);
  write_file(path, "old");
  EXPECT_EQ(mode_of(path), 0644);
  for (const int mode : {0600, 0640, 0666, 0440}) {
    fs::permissions(path, static_cast<fs::perms>(mode));
    AtomicFile file(path);
    EXPECT_EQ(mode_of(file.temporary()), mode | 0600) << "from the start";
    std::ofstream(file.temporary()) << "new";
    file.commit();
    EXPECT_EQ(mode_of(path), mode);
  }
  EXPECT_EQ(read_file(path), "new");
  put_run(folder / "run", "old");
  fs::permissions(folder / "run", fs::perms::owner_all);
  put_run(folder / "run", "new");
  EXPECT_EQ(mode_of(folder / "run"), 0700);
  ::umask(before);
  fs::remove_all(folder);
}

// A checkpoint of a thousand shards would list a thousand names a thousand times.
TEST(LeftOvers, AFolderThatIsBeingMadeIsNotSearchedForWhatOthersLeft) {
  const auto place = unique_folder("convoy-new");
  folders_listed = 0;
  write_file(place / "file", "text");
  EXPECT_EQ(folders_listed, 1) << "this test cannot fail";
  {
    AtomicFolder made(place / "run");
    folders_listed = 0;
    for (int i = 0; i < 20; ++i) write_file(made.temporary() / std::to_string(i), "text");
    EXPECT_EQ(folders_listed, 0);
    made.commit();
  }
  EXPECT_EQ(names_in(place / "run").size(), 20u);
  fs::remove_all(place);
}

}  // namespace
}  // namespace convoy
