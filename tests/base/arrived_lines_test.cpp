#include "convoy/base/arrived_lines.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <string>
#include <thread>

namespace convoy {
namespace {

using Lines = std::vector<std::string>;

class ArrivedLinesTest : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_EQ(::pipe(ends_.data()), 0); }
  void TearDown() override {
    ::close(ends_[0]);
    if (ends_[1] >= 0) ::close(ends_[1]);
  }
  void put(const std::string& text) {
    ASSERT_EQ(::write(ends_[1], text.data(), text.size()), static_cast<ssize_t>(text.size()));
  }
  void end() {
    ::close(ends_[1]);
    ends_[1] = -1;
  }
  std::array<int, 2> ends_{};
};

TEST_F(ArrivedLinesTest, ComeTogetherAsFarAsTheyAreThere) {
  ArrivedLines input(ends_[0]);
  put("a\nb\n\nc");
  EXPECT_EQ(input.next(10), (Lines{"a", "b", ""})) << "c is not whole yet";
  put("d\ne\nf\n");
  EXPECT_EQ(input.next(2), (Lines{"cd", "e"}));
  EXPECT_EQ(input.next(2), Lines{"f"}) << "waits for no more";
  put("g");
  end();
  EXPECT_EQ(input.next(2), Lines{"g"}) << "the last one has no end";
  EXPECT_TRUE(input.next(2).empty());
}

TEST_F(ArrivedLinesTest, AreWaitedForWhereNoneIsThere) {
  ArrivedLines input(ends_[0]);
  const std::string longer(300'000, 'x');  // than a pipe takes at once
  std::thread writer([&] {
    put("slow\n");
    put(longer + "\nend\n");
    end();
  });
  Lines all;
  for (auto lines = input.next(100); !lines.empty(); lines = input.next(100)) {
    all.insert(all.end(), lines.begin(), lines.end());
  }
  writer.join();
  EXPECT_EQ(all, (Lines{"slow", longer, "end"}));
}

}  // namespace
}  // namespace convoy
