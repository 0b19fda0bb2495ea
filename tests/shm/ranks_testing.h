#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "convoy/shm/segment.h"

// Ranks that are threads of the test.
namespace convoy::shm {

inline void run_ranks(int size,
                      const std::function<void(std::shared_ptr<Segment>, int rank)>& work) {
  auto segment = Segment::of_threads(size);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank) {
    threads.emplace_back([&, rank] { work(segment, rank); });
  }
  for (auto& thread : threads) thread.join();
}

inline constexpr std::chrono::milliseconds kPatience{20000};

}  // namespace convoy::shm
