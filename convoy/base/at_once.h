#pragma once

#include <exception>
#include <thread>
#include <vector>

namespace convoy {

/// Runs work(0) to work(n - 1) on a thread each and waits for all. Throws what the first of them
/// threw.
template <class Work>
void at_once(int n, const Work& work) {
  std::vector<std::exception_ptr> failures(static_cast<size_t>(n));
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < n; ++i) {
      threads.emplace_back([&, i] {
        try {
          work(i);
        } catch (...) {
          failures[static_cast<size_t>(i)] = std::current_exception();
        }
      });
    }
  }
  for (const auto& failure : failures) {
    if (failure) std::rethrow_exception(failure);
  }
}

}  // namespace convoy
