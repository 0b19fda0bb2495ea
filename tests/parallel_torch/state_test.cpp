#include "convoy/parallel/buffers/state.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <array>
#include <map>
#include <mutex>

#include "convoy/parallel/run/replica.h"
#include "tests/comm/ranks_testing.h"
#include "tests/models/testing.h"

namespace convoy::parallel {
namespace {

// Two state replicas, on two ranks each.
TEST(State, CopiesShareTheWriting) {
  std::mutex mutex;
  std::map<std::string, at::Tensor> owned, written;
  std::array<int64_t, 4> bytes{};
  comm::ThreadConnector connector(std::chrono::seconds(20));
  comm::run_threads(4, [&](int rank) {
    const comm::Groups groups({{.replicate = 2}, rank, 4},
                              [&](const std::vector<int>& ranks, const std::string& name) {
                                return connector.connect(rank, ranks, name);
                              });
    ReplicaOptions options;
    options.parallelism.zero = 2;
    const auto config = models::small_gpt2({.ids = 5000, .width = 32, .length = 8});
    Replica replica(config.make_blocks(), groups, options);
    replica.start();
    const std::lock_guard lock(mutex);
    for (const auto& state : {replica.weights(), replica.moments()}) {
      for (const auto& tensor : state) {
        for (auto* counts : {&owned, &written}) {
          auto& count = (*counts)[tensor.name];
          if (!count.defined()) count = at::zeros({parallel::num_elements(tensor.shape)});
        }
        for (const auto& piece : tensor.pieces) {
          const int64_t length = piece.values.numel();
          if (piece.owned) owned[tensor.name].narrow(0, piece.begin, length) += 1;
          if (!piece.writes) continue;
          written[tensor.name].narrow(0, piece.begin, length) += 1;
          bytes[static_cast<size_t>(rank)] += length;
        }
      }
    }
  });
  int64_t all = 0;
  for (const auto& [name, counts] : written) {
    EXPECT_TRUE(counts.eq(1).all().item<bool>()) << name << " is written once";
    EXPECT_TRUE(owned.at(name).eq(1).all().item<bool>()) << name << " is counted once";
    all += counts.numel();
  }
  for (const int64_t each : bytes) EXPECT_LT(each, all * 0.3);
}

}  // namespace
}  // namespace convoy::parallel
