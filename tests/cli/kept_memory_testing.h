#pragma once

#include "tests/cli/command_testing.h"

namespace convoy {

/// Trains on sessions under launchers that keep memory for copies, in the folder `tmp`.
class KeptMemoryCommand : public CommandTest {
 protected:
  static constexpr int kSteps = 12;

  void SetUp() override {
    CommandTest::SetUp();
    make_sessions(400);
    fs::create_directory(folder_ / "tmp");
  }

  void expect_nothing_left() const {
    EXPECT_TRUE(fs::is_empty(folder_ / "tmp")) << "a launcher left files";
  }
};

}  // namespace convoy
