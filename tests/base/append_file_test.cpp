#include "convoy/base/append_file.h"

#include <gtest/gtest.h>

#include <map>

#include "convoy/base/error.h"
#include "convoy/base/files.h"
#include "tests/base/small_disk.h"

namespace convoy {
namespace {

namespace fs = std::filesystem;

TEST(AppendFiles, ADiskThatIsFullForAWhileCostsNoRecord) {
  const auto folder = unique_folder("convoy-test");
  const auto path = folder / "log";
  AppendFile file(path, false);
  EXPECT_EQ(file.append("one\n"), "");
  {
    const SmallDisk disk(6);  // takes half of the next record
    EXPECT_EQ(file.append("two\n"),
              path.string() +
                  " takes no more (File too large); what follows waits in memory until "
                  "it does");
    EXPECT_EQ(read_file(path), "one\n") << "no half record";
    EXPECT_EQ(file.append("three\n"), "") << "said once";
    EXPECT_EQ(file.flush(), path.string() + " lacks its last 10 B: File too large");
  }
  EXPECT_EQ(file.append("four\n"), "");
  EXPECT_EQ(read_file(path), "one\ntwo\nthree\nfour\n");
  EXPECT_EQ(file.flush(), "");
  fs::remove_all(folder);
}

TEST(AppendFiles, KeepsOrEmptiesWhatIsThere) {
  const auto folder = unique_folder("convoy-test");
  write_file(folder / "log", "one\n");
  EXPECT_EQ(AppendFile(folder / "log", true).append("two\n"), "");
  EXPECT_EQ(read_file(folder / "log"), "one\ntwo\n");
  EXPECT_EQ(AppendFile(folder / "log", false).append("three\n"), "");
  EXPECT_EQ(read_file(folder / "log"), "three\n");
  EXPECT_THROW(AppendFile("/nowhere/log", true), FileError);
  fs::remove_all(folder);
}

TEST(AppendFiles, OpensANewFileAfterAMoveOnlyWhenAsked) {
  const auto folder = unique_folder("convoy-test");
  fs::create_directory(folder / "run");
  AppendFile file(folder / "run/log", false);
  file.append("one\n");
  EXPECT_EQ(file.reopen(), "") << "it is where it was";
  fs::rename(folder / "run", folder / "moved");
  file.append("two\n");
  const auto trouble = file.reopen();
  EXPECT_NE(trouble.find("run/log: No such file or directory"), std::string::npos) << trouble;
  file.append("three\n");
  fs::create_directory(folder / "run");
  file.append("four\n");  // it may be another's
  EXPECT_EQ(file.reopen(), "");
  file.append("five\n");
  EXPECT_EQ(read_file(folder / "moved/log"), "one\ntwo\nthree\nfour\n");
  EXPECT_EQ(read_file(folder / "run/log"), "five\n");
  fs::remove_all(folder);
}

// A host that died leaves a line in parts: what follows must not be one with it.
TEST(AppendFiles, ALineThatWasCutIsEnded) {
  const auto folder = unique_folder("convoy-test");
  const auto path = folder / "log";
  for (const auto& [before, after] : std::map<std::string, std::string>{
           {"", "new\n"}, {"one\n", "one\nnew\n"}, {"one\ntw", "one\ntw\nnew\n"}}) {
    write_file(path, before);
    AppendFile(path, true).append("new\n");
    EXPECT_EQ(read_file(path), after);
  }
  fs::remove_all(folder);
}

}  // namespace
}  // namespace convoy
