#include "convoy/shm/channel.h"

#include <gtest/gtest.h>

#include <numeric>

#include "convoy/base/error.h"
#include "tests/shm/ranks_testing.h"

namespace convoy::shm {
namespace {

/// A number that says who wrote it and where.
int64_t mark(int rank, size_t index) {
  return rank * 1000003 + static_cast<int64_t>(index % 99991);
}

std::vector<int64_t> marks(int rank, size_t count) {
  std::vector<int64_t> out(count);
  for (size_t i = 0; i < count; ++i) out[i] = mark(rank, i);
  return out;
}

int64_t sum_of_marks(int size, size_t index) {
  return size * static_cast<int64_t>(index % 99991) + 1000003 * (size * (size - 1) / 2);
}

// Sizes around those of slots and parts, in elements of 8 bytes.
const std::vector<size_t> kCounts{0, 1, 7, 1000, 1025, 32767, 32768, 32769, 70001, 300000};

TEST(Channel, AllReduce) {
  for (int size : {2, 3, 4, 7}) {
    run_ranks(size, [size](auto segment, int rank) {
      Channel channel(segment, rank, kPatience);
      for (size_t count : kCounts) {
        auto data = marks(rank, count);
        channel.all_reduce(data.data(), count, Dtype::I64, Reduction::Sum, "sum");
        for (size_t i = 0; i < count; ++i) ASSERT_EQ(data[i], sum_of_marks(size, i)) << i;
        data = marks(rank, count);
        channel.all_reduce(data.data(), count, Dtype::I64, Reduction::Max, "max");
        for (size_t i = 0; i < count; ++i) ASSERT_EQ(data[i], mark(size - 1, i)) << i;
      }
    });
  }
}

/// Unequal parts, one of them empty.
std::vector<size_t> uneven(int size, size_t count) {
  std::vector<size_t> counts(static_cast<size_t>(size));
  for (size_t r = 0; r < counts.size(); ++r) counts[r] = r == 1 ? 0 : count * (r + 1);
  return counts;
}

TEST(Channel, ReduceScatterAndAllGather) {
  for (int size : {2, 3, 5}) {
    run_ranks(size, [size](auto segment, int rank) {
      Channel channel(segment, rank, kPatience);
      for (size_t count : kCounts) {
        for (const auto& counts :
             {std::vector<size_t>(static_cast<size_t>(size), count), uneven(size, count)}) {
          const size_t total = std::accumulate(counts.begin(), counts.end(), size_t{0});
          const size_t begin = std::accumulate(counts.begin(), counts.begin() + rank, size_t{0});
          const auto own = counts[static_cast<size_t>(rank)];
          const auto all = marks(rank, total);
          std::vector<int64_t> part(own);
          channel.reduce_scatter(part.data(), all.data(), counts, Dtype::I64, Reduction::Sum,
                                 "scatter");
          for (size_t i = 0; i < own; ++i) ASSERT_EQ(part[i], sum_of_marks(size, begin + i));
          channel.reduce_scatter(part.data(), all.data(), counts, Dtype::I64, Reduction::Sum,
                                 "again",
                                 /*adds=*/true);
          for (size_t i = 0; i < own; ++i) ASSERT_EQ(part[i], 2 * sum_of_marks(size, begin + i));
          auto place = all;
          channel.reduce_scatter(place.data() + begin, place.data(), counts, Dtype::I64,
                                 Reduction::Sum, "in its place");
          for (size_t i = 0; i < total; ++i) {
            const bool mine = i >= begin && i < begin + own;
            ASSERT_EQ(place[i], mine ? sum_of_marks(size, i) : all[i]);
            if (mine) part[i - begin] = place[i];
          }

          std::vector<int64_t> whole(total, -1);
          channel.all_gather(whole.data(), part.data(), counts, Dtype::I64, "gather");
          for (size_t i = 0; i < total; ++i) ASSERT_EQ(whole[i], sum_of_marks(size, i));
          channel.all_gather(whole.data(), whole.data() + begin, counts, Dtype::I64, "in place");
          for (size_t i = 0; i < total; ++i) ASSERT_EQ(whole[i], sum_of_marks(size, i));
        }
      }
    });
  }
}

TEST(Channel, Broadcast) {
  run_ranks(3, [](auto segment, int rank) {
    Channel channel(segment, rank, kPatience);
    for (size_t count : kCounts) {
      for (int root = 0; root < 3; ++root) {
        auto data = marks(rank, count);
        channel.broadcast(data.data(), count, Dtype::I64, root, "weights");
        ASSERT_EQ(data, marks(root, count));
      }
    }
  });
}

TEST(Channel, AllToAll) {
  for (int size : {2, 4}) {
    run_ranks(size, [size](auto segment, int rank) {
      Channel channel(segment, rank, kPatience);
      for (size_t scale : {0, 1, 500, 20000}) {
        // Rank a sends (a + 2 b) * scale elements to rank b.
        const auto count = [&](int a, int b) { return static_cast<size_t>(a + 2 * b) * scale; };
        std::vector<size_t> send, receive;
        std::vector<int64_t> in;
        for (int b = 0; b < size; ++b) {
          send.push_back(count(rank, b));
          receive.push_back(count(b, rank));
          for (size_t i = 0; i < send.back(); ++i) in.push_back(mark(rank * 10 + b, i));
        }
        std::vector<int64_t> out(std::accumulate(receive.begin(), receive.end(), size_t{0}));
        channel.all_to_all(out.data(), receive, in.data(), send, Dtype::I64, "all to all");
        size_t at = 0;
        for (int a = 0; a < size; ++a) {
          for (size_t i = 0; i < count(a, rank); ++i) {
            ASSERT_EQ(out[at++], mark(a * 10 + rank, i)) << a << " to " << rank;
          }
        }
      }
    });
  }
}

TEST(Channel, ManyInARowKeepTheirOrder) {
  run_ranks(4, [](auto segment, int rank) {
    Channel channel(segment, rank, kPatience);
    for (int64_t i = 0; i < 3000; ++i) {
      int64_t value = i * (rank + 1);
      channel.all_reduce(&value, 1, Dtype::I64, Reduction::Sum, "sum");
      ASSERT_EQ(value, i * 10);
      channel.broadcast(&value, 1, Dtype::I64, static_cast<int>(i % 4), "value");
    }
  });
}

std::string failure_of(const std::function<void()>& work) {
  try {
    work();
  } catch (const CommunicationError& error) {
    return error.what();
  }
  return "nothing was thrown";
}

TEST(Channel, DifferentCollectivesAreFoundAndNamed) {
  run_ranks(2, [](auto segment, int rank) {
    Channel channel(segment, rank, kPatience);
    float value = 1;
    const auto said = failure_of([&] {
      if (rank == 0) channel.all_reduce(&value, 1, Dtype::F32, Reduction::Sum, "reduce bucket 3");
      if (rank == 1) channel.barrier("save");
    });
    EXPECT_NE(said.find("all_reduce 'reduce bucket 3' of 1 fp32"), std::string::npos) << said;
    EXPECT_NE(said.find("barrier 'save'"), std::string::npos) << said;
    EXPECT_EQ(value, 1);
    EXPECT_NE(failure_of([&] { channel.barrier("next"); }), "nothing was thrown");
  });
}

TEST(Channel, AMissingRankIsNamedAfterTheTimeout) {
  run_ranks(3, [](auto segment, int rank) {
    if (rank == 1) return;
    Channel channel(segment, rank, std::chrono::milliseconds(200));
    try {
      channel.barrier("save checkpoint");
      ADD_FAILURE();
    } catch (const CommunicationError& error) {
      const std::string said = error.what();
      EXPECT_NE(said.find("waited 0.2 s in 'save checkpoint' for rank 1"), std::string::npos)
          << said;
    }
  });
}

TEST(Channel, AbortWakesEveryone) {
  run_ranks(3, [](auto segment, int rank) {
    Channel channel(segment, rank, kPatience);
    if (rank == 2) {
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
      channel.abort("replica 2 failed");
      return;
    }
    const auto said = failure_of([&] { channel.barrier("reduce"); });
    EXPECT_NE(said.find("replica 2 failed"), std::string::npos) << said;
  });
}

TEST(Channel, MoreRanksThanCoresGoOn) {
  const int size = static_cast<int>(std::thread::hardware_concurrency()) * 4;
  run_ranks(size, [size](auto segment, int rank) {
    Channel channel(segment, rank, kPatience);
    for (int i = 0; i < 20; ++i) {
      auto data = marks(rank, 50000);
      channel.all_reduce(data.data(), data.size(), Dtype::I64, Reduction::Sum, "sum");
      ASSERT_EQ(data[12345], sum_of_marks(size, 12345));
    }
  });
}

}  // namespace
}  // namespace convoy::shm
