#include "convoy/base/activity.h"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <stdexcept>
#include <string>
#include <thread>

#include "convoy/base/files.h"

namespace convoy {
namespace {

struct alignas(8) Memory {
  std::array<char, kActivityBytes> bytes{};
};

TEST(Activity, IsReadFromEveryPage) {
  Memory memory;
  publish_activity(memory.bytes.data());
  const auto file = unique_folder("convoy-activity") / "rank-0";
  ASSERT_TRUE(publish_activity_to_file(file));
  tell_step(17);
  tell_operation("reduce bucket 3");
  EXPECT_EQ(to_text(read_activity(memory.bytes.data())), "step 17, reduce bucket 3");
  ASSERT_TRUE(read_activity_file(file));
  EXPECT_EQ(to_text(*read_activity_file(file)), "step 17, reduce bucket 3");
  EXPECT_GT(read_activity_file(file)->since, 1.7e9);
  {
    const Doing doing("saving");
    EXPECT_EQ(read_activity(memory.bytes.data()).operation, "saving");
  }
  EXPECT_EQ(read_activity(memory.bytes.data()).operation, "reduce bucket 3");
  try {
    const Doing doing("reading");
    throw 1;
  } catch (int) {
    EXPECT_EQ(read_activity(memory.bytes.data()).operation, "reading");
  }
  tell_operation("reduce bucket 3");
  retract_activity(memory.bytes.data());
  tell_operation(std::string(1000, 'x'));
  EXPECT_EQ(read_activity(memory.bytes.data()).operation, "reduce bucket 3");
  EXPECT_EQ(read_activity_file(file)->operation.size(), 231u);
  tell_step(0);
  tell_operation("");
  EXPECT_EQ(to_text(*read_activity_file(file)), "");
  EXPECT_FALSE(read_activity_file(file.parent_path() / "rank-1"));
  std::filesystem::remove_all(file.parent_path());
}

// A job with copies and a pipeline has a page for each group of ranks, and the launcher's.
TEST(Activity, HasAsManyPagesAsThereAreGroups) {
  std::array<Memory, 9> pages;
  for (auto& page : pages) publish_activity(page.bytes.data());
  tell_operation("reduce bucket 3");
  for (auto& page : pages) EXPECT_EQ(read_activity(page.bytes.data()).operation, "reduce bucket 3");
  for (auto& page : pages) retract_activity(page.bytes.data());
  tell_operation("");
}

TEST(Activity, IsNotThatOfAThreadBesideIt) {
  tell_operation("forward block 3");
  std::thread([] { const Doing doing("write files"); }).join();
  {
    const Doing doing("clip");
    std::thread([] {
      const Doing saving("write files");
      EXPECT_EQ(current_activity().operation, "clip");
    }).join();
    EXPECT_EQ(current_activity().operation, "clip");
    // One that works for it is heard.
    std::thread([caller = own_voice()] {
      speak_as(caller);
      const Doing joining("start");
      EXPECT_EQ(current_activity().operation, "start");
    }).join();
    EXPECT_EQ(current_activity().operation, "clip");
  }
  EXPECT_EQ(current_activity().operation, "forward block 3");
  // A program may train in a thread of its own.
  std::thread([] {
    tell_step(3);
    const Doing doing("reduce loss");
    EXPECT_EQ(to_text(current_activity()), "step 3, reduce loss");
  }).join();
  tell_step(0);
  tell_operation("");
}

TEST(Activity, KeepsThreadsThatWorkAtOnceApart) {
  ThreadOperation first, second;
  const auto told = [](ThreadOperation& own, const std::string& text) {
    std::thread([&] {
      tell_too(&own);
      tell_operation(text);
      const Doing waiting("wait for " + text);
      EXPECT_EQ(own.told(), "wait for " + text);
    }).join();
  };
  told(first, "forward block 1");
  told(second, "forward block 2");
  EXPECT_EQ(first.told(), "forward block 1");
  EXPECT_EQ(second.told(), "forward block 2");
  EXPECT_EQ(first.tell("load"), "forward block 1");
  // What throws leaves it told.
  std::thread([&] {
    tell_too(&second);
    try {
      const Doing doing("send block 2");
      throw std::runtime_error("broken");
    } catch (const std::runtime_error&) {
    }
  }).join();
  EXPECT_EQ(second.told(), "send block 2");
  tell_operation("");
}

TEST(Activity, IsNeverReadHalfWritten) {
  Memory memory;
  publish_activity(memory.bytes.data());
  std::atomic<bool> stop{false};
  std::thread writer([&] {
    for (int i = 0; !stop; ++i) tell_operation(std::string(100, static_cast<char>('a' + i % 26)));
  });
  for (int i = 0; i < 20000; ++i) {
    const auto text = read_activity(memory.bytes.data()).operation;
    EXPECT_EQ(text.find_first_not_of(text.substr(0, 1)), std::string::npos);
  }
  stop = true;
  writer.join();
  retract_activity(memory.bytes.data());
  tell_operation("");
}

}  // namespace
}  // namespace convoy
