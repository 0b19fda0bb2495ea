#include "convoy/shm/slot_writer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <random>
#include <vector>

namespace convoy::shm {
namespace {

/// As if the others were always far, and always near.
TEST(SlotWriter, WritesTheSameEitherWay) {
  std::mt19937 random(1);
  for (const double far_ns_per_line : {-1.0, std::numeric_limits<double>::infinity()}) {
    SlotWriter writer(far_ns_per_line);
    for (int i = 0; i < 200; ++i) {
      const size_t bytes = random() % 40000;
      const size_t offset = random() % 100;
      std::vector<char> from(bytes), to(bytes + 200, 7);
      for (auto& x : from) x = static_cast<char>(random());
      writer.write(to.data() + offset, from.data(), bytes);
      ASSERT_TRUE(std::equal(from.begin(), from.end(), to.begin() + static_cast<long>(offset)))
          << bytes << " bytes to " << offset;
      ASSERT_EQ(std::count(to.begin(), to.begin() + static_cast<long>(offset), 7),
                static_cast<long>(offset));
      ASSERT_EQ(std::count(to.begin() + static_cast<long>(offset + bytes), to.end(), 7),
                static_cast<long>(200 - offset));
    }
  }
}

}  // namespace
}  // namespace convoy::shm
