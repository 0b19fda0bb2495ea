#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <thread>
#include <vector>

#include "convoy/base/error.h"
#include "convoy/base/files.h"
#include "convoy/base/piped_input.h"

namespace convoy {
namespace {

namespace fs = std::filesystem;

TEST(LineReader, TellsTheEndFromAFileThatCannotBeRead) {
  const auto folder = unique_folder("convoy-lines");
  write_file(folder / "text", "one\n\nend");
  LineReader in(folder / "text", "lines");
  std::vector<std::string> lines;
  for (std::string line; in.next(line);) lines.push_back(line + (in.ended() ? "|" : ""));
  EXPECT_EQ(lines, (std::vector<std::string>{"one|", "|", "end"}));
  const auto message_of = [](const fs::path& file) {
    try {
      LineReader broken(file, "a prompt a line");
      for (std::string line; broken.next(line);) continue;
    } catch (const FileError& error) {
      return std::string(error.what());
    }
    return std::string("read");
  };
  // Its first page is nobody's memory.
  EXPECT_EQ(message_of("/proc/self/mem"),
            "[files] cannot read /proc/self/mem to its end: Input/output error");
  EXPECT_EQ(message_of(folder), "[files] cannot read " + folder.string() +
                                    ": it is a folder; expected a prompt a line");
  EXPECT_NE(message_of(folder / "none").find("No such file"), std::string::npos);
  fs::remove_all(folder);
}

TEST(ReadFile, TellsTheEndFromAFileThatCannotBeRead) {
  const auto folder = unique_folder("convoy-whole");
  const std::string large(1'000'000, 'x');  // of several pieces
  for (const auto& content : {std::string(), std::string("a\0b\n", 4), large}) {
    write_file(folder / "file", content);
    EXPECT_TRUE(read_file(folder / "file") == content) << content.size();
  }
  EXPECT_FALSE(read_file("/proc/self/status").empty()) << "whose size nobody says";
  for (const char* broken : {"/proc/self/mem", "/proc/self", "/proc/none"}) {
    EXPECT_THROW(read_file(broken), FileError) << broken;
  }
  fs::remove_all(folder);
}

TEST(AtomicFile, ASymbolicLinkStays) {
  const auto folder = unique_folder("convoy-links");
  const auto link = folder / "link";
  make_folder(folder / "real");
  fs::create_symlink("real/text", link);
  for (const char* content : {"new", "over it"}) {
    write_file(link, content);
    EXPECT_TRUE(fs::is_symlink(link));
    EXPECT_EQ(read_file(folder / "real/text"), content);
  }
  fs::create_symlink(link, folder / "other");
  write_file(folder / "other", "through two");
  EXPECT_EQ(read_file(folder / "real/text"), "through two");
  fs::create_symlink("real", folder / "place");
  for (int round = 0; round < 2; ++round) {
    AtomicFolder replaced(folder / "place");
    write_file(replaced.temporary() / "number", std::to_string(round));
    replaced.commit();
    EXPECT_TRUE(fs::is_symlink(folder / "place"));
    EXPECT_EQ(read_file(folder / "real/number"), std::to_string(round));
  }
  EXPECT_FALSE(fs::exists(folder / "real/text"));
  fs::create_symlink("loop", folder / "loop");
  EXPECT_THROW(write_file(folder / "loop", "never"), FileError);
  fs::remove_all(folder);
}

TEST(PipedInput, IsReadOnceAndStays) {
  const auto folder = unique_folder("convoy-pipe");
  const auto pipe = folder / "pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  const std::string content(3'000'000, 'x');
  std::thread writer([&] { std::ofstream(pipe) << content; });
  EXPECT_TRUE(is_piped(pipe.string()));
  const auto lasting = lasting_input(pipe.string());
  writer.join();
  for (int i = 0; i < 2; ++i) EXPECT_TRUE(read_file(lasting) == content);
  EXPECT_FALSE(is_piped(lasting));
  // Another process may read it, too.
  EXPECT_EQ(std::system(("test $(cat " + lasting + " | wc -c) = 3000000").c_str()), 0);
  for (const auto& plain : {folder.string(), (folder / "none").string(), std::string()}) {
    EXPECT_EQ(lasting_input(plain), plain);
  }
  fs::remove_all(folder);
}

}  // namespace
}  // namespace convoy
