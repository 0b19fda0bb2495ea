#include <gmock/gmock.h>

#include "convoy/base/error.h"
#include "convoy/train/checkpoints/space_wait.h"

namespace convoy::train {
namespace {

using testing::HasSubstr;
using testing::Not;

/// Keeps the messages of a run.
struct Messages : Callback {
  void on_message(const std::string& text) override { all.push_back(text); }
  std::vector<std::string> all;
};

/// A wait in this folder whose saves find no space.
struct Full {
  explicit Full(double longest)
      : wait(std::chrono::duration<double>(longest), std::filesystem::temp_directory_path(),
             callbacks) {
    callbacks.add(messages);
  }

  /// Text of the error with which a save of more bytes than any disk has ends.
  std::string error() {
    try {
      wait.run(
          comm::Group(), [] { return INT64_MAX; },
          [this] {
            ++attempts;
            throw DiskFullError("no space");
          });
    } catch (const FileError& error) {
      return error.what();
    }
    return "";
  }

  CallbackHandler callbacks{0};
  std::shared_ptr<Messages> messages = std::make_shared<Messages>();
  SpaceWait wait;
  int attempts = 0;
};

TEST(SpaceWait, FirstSaveFailsAtOnce) {
  Full full(30);
  EXPECT_EQ(full.error(), "no space");
  EXPECT_EQ(full.attempts, 1);
  EXPECT_TRUE(full.messages->all.empty());
}

TEST(SpaceWait, WaitEndsAfterItsTimeAndIsToldOnce) {
  Full full(0.2);
  full.wait.note_saved();
  EXPECT_THAT(full.error(), HasSubstr("no space; waited"));
  ASSERT_EQ(full.messages->all.size(), 1U);
  EXPECT_THAT(full.messages->all[0], HasSubstr("all ranks wait up to 0 s for space"));
}

TEST(SpaceWait, SignalEndsTheWait) {
  Full full(30);
  full.wait.note_saved();
  int asked = 0;
  full.wait.set_stop_signal([&](const comm::Group&) { return ++asked > 1 ? 15 : 0; });
  EXPECT_THAT(full.error(), Not(HasSubstr("waited")));
  EXPECT_EQ(asked, 2);
}

TEST(SpaceWait, OtherErrorsAreNotWaitedFor) {
  Full full(30);
  full.wait.note_saved();
  EXPECT_THROW(
      full.wait.run(
          comm::Group(), [] { return 1; }, [] { throw FileError("the folder was removed"); }),
      FileError);
  EXPECT_TRUE(full.messages->all.empty());
}

}  // namespace
}  // namespace convoy::train
