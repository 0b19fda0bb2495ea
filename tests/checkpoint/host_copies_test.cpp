#include "convoy/checkpoint/host_copies.h"

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <fstream>

#include "convoy/base/error.h"
#include "convoy/base/files.h"
#include "convoy/checkpoint/folder.h"
#include "convoy/checkpoint/weights.h"
#include "convoy/parallel/strategy/strategy.h"
#include "tests/comm/ranks_testing.h"
#include "tests/models/testing.h"

// Hosts that each keep copies in memory.
namespace convoy::checkpoint {
namespace {

namespace fs = std::filesystem;

/// A job of several hosts, whose ranks are threads, each host with memory as its launcher keeps it.
class HostCopies : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = unique_folder("convoy-hosts");
    for (int host = 0; host < 4; ++host) make_host(host);
  }
  void TearDown() override { fs::remove_all(folder_); }

  fs::path memory_of(int host) const { return folder_ / fmt::format("host-{}", host); }
  fs::path copy_of(int host, int64_t step) const {
    return memory_of(host) / fmt::format("checkpoint-{}", step);
  }

  /// Memory of a host that holds nothing yet.
  void make_host(int host) const {
    fs::remove_all(memory_of(host));
    make_folder(memory_of(host));
    for (int i = 0; i < 4; ++i)
      std::ofstream(memory_of(host) / fmt::format("memory-{}", i)).flush();
  }

  /// Flips a bit near the end of a file of a host's copy.
  void flip(int host, int64_t step, const char* file) const {
    std::fstream stream(copy_of(host, step) / file, std::ios::in | std::ios::out);
    stream.seekg(-3, std::ios::end);
    const char byte = static_cast<char>(stream.peek() ^ 4);
    stream.seekp(-3, std::ios::end).put(byte);
  }

  static nn::BlockList blocks() {
    return models::small_gpt2({.ids = 23, .width = 12, .length = 6}).make_blocks();
  }

  /// A replica of rank `rank` of the mesh with the values that `seed` draws and moments after a
  /// step.
  static std::unique_ptr<parallel::Strategy> replica(const comm::Groups& groups, int zero,
                                                     at::ScalarType dtype = at::kFloat) {
    parallel::ReplicaOptions options;
    options.parallelism.zero = zero;
    options.parallelism.bucket_bytes = 0;
    options.compute_dtype = dtype;
    options.seed = 7;
    auto strategy = parallel::make_process_strategy(blocks, groups, options);
    auto ids = at::arange(12, at::kLong).view({2, 6});
    parallel::MicroBatch rows{{{"input_ids", ids}, {"labels", ids}}, at::arange(2, at::kLong)};
    if (groups.rows.rank() > 0) rows = {};
    strategy->step({{rows}}, {.seed = 7, .step = 0, .learning_rate = 1e-2, .updates = 0}, {});
    return strategy;
  }

  using Work = std::function<void(const comm::Groups&, const HostPlace&)>;

  /// Runs `work` on all ranks of a mesh, of which each host has `ranks_of_host`.
  static void on_ranks(const parallel::Degrees& mesh, int ranks_of_host, const Work& work) {
    const int ranks = static_cast<int>(mesh.product());
    comm::ThreadConnector connector(std::chrono::seconds(30));
    comm::run_threads(ranks, [&](int rank) {
      const comm::Groups groups({mesh, rank, ranks},
                                [&](const std::vector<int>& all, const std::string& name) {
                                  return connector.connect(rank, all, name);
                                });
      work(groups, {.host = rank / ranks_of_host,
                    .num_hosts = ranks / ranks_of_host,
                    .local_rank = rank % ranks_of_host,
                    .num_local_ranks = ranks_of_host});
    });
  }

  /// Copies the state after a step into the memory of each host, and saves it.
  void copy(const parallel::Degrees& mesh, int ranks_of_host, int zero, int64_t step,
            at::ScalarType dtype = at::kFloat) const {
    on_ranks(mesh, ranks_of_host, [&](const comm::Groups& groups, const HostPlace& place) {
      const auto strategy = replica(groups, zero, dtype);
      const int rank = groups.world.rank();
      const auto share =
          parallel::host_share(groups.mesh, rank - place.local_rank, ranks_of_host, zero > 0);
      MemoryCopies copies(memory_of(place.host), place);
      const auto text = fmt::format("of rank {}", rank);
      if (share) {
        copies.write(step, strategy->replica().weights_of_host(*share),
                     strategy->replica().moments_of_host(*share), {{kState, text}}, groups.world);
      } else {
        copies.write(step, strategy->weights(), strategy->moments(), {{kState, text}}, groups.world,
                     /*sends=*/true);
      }
      for (const char* name : {"weights", "moments"}) {
        if (rank == 0) make_folder(folder_ / name);
        groups.world.barrier("made");
        const bool weights = name == std::string("weights");
        save_weights(folder_ / name, weights ? strategy->weights() : strategy->moments(),
                     groups.world);
      }
    });
  }

  /// Expects each host's copy to hold what was saved.
  void expect_whole(int num_hosts, int64_t step) const {
    const auto expected = replica({}, 0), got = replica({}, 0);
    load_weights(folder_ / "weights", expected->weights(), {});
    load_weights(folder_ / "moments", expected->moments(), {});
    for (int host = 0; host < num_hosts; ++host) {
      SCOPED_TRACE(fmt::format("host {}", host));
      EXPECT_EQ(read_file(copy_of(host, step) / kState), "of rank 0");
      for (const auto& state : {got->weights(), got->moments()}) {
        for (const auto& tensor : state) {
          for (const auto& piece : tensor.pieces) piece.values.fill_(-1);
        }
      }
      load_weights(copy_of(host, step), got->weights(), {});
      load_optimizer(copy_of(host, step) / kOptimizer, got->moments(), {});
      const auto same = [](const parallel::State& one, const parallel::State& other) {
        for (size_t t = 0; t < one.size(); ++t) {
          EXPECT_TRUE(one[t].pieces.at(0).values.equal(other[t].pieces.at(0).values))
              << one[t].name;
        }
      };
      same(expected->weights(), got->weights());
      same(expected->moments(), got->moments());
    }
  }

  fs::path folder_;
};

TEST_F(HostCopies, AreWholeOnEachHostInEveryLayout) {
  struct Way {
    parallel::Degrees mesh;
    int ranks_of_host;
    int zero;
  };
  int64_t step = 0;
  for (const auto& [mesh, ranks_of_host, zero] :
       std::vector<Way>{{{.shard = 3}, 1, 0},
                        {{.shard = 4}, 2, 0},
                        {{.shard = 6}, 3, 0},
                        {{.replicate = 2, .shard = 2}, 2, 1},
                        {{.replicate = 2, .shard = 2}, 2, 3},
                        {{.replicate = 4, .shard = 2}, 4, 2},
                        {{.replicate = 2, .shard = 2, .tensor = 2}, 4, 3},
                        {{.shard = 2, .tensor = 2}, 2, 0},
                        {{.replicate = 2, .context = 2}, 2, 3},
                        // Hosts that lack some get it from the others.
                        {{.shard = 3}, 1, 2},
                        {{.shard = 4}, 2, 1},
                        {{.shard = 4}, 2, 3},
                        {{.replicate = 2, .shard = 4}, 2, 3},
                        {{.pipeline = 2, .shard = 2}, 2, 1},
                        {{.shard = 2, .tensor = 2}, 1, 3},
                        {{.replicate = 2, .context = 2}, 1, 3}}) {
    const int ranks = static_cast<int>(mesh.product());
    SCOPED_TRACE(fmt::format("{}, {} on a host, zero {}", parallel::Mesh(mesh, 0, ranks).to_text(),
                             ranks_of_host, zero));
    copy(mesh, ranks_of_host, zero, ++step);
    expect_whole(ranks / ranks_of_host, step);
  }
}

// More than is sent at once, and no multiple of it.
TEST_F(HostCopies, ManyMegabytesAreSentInParts) {
  constexpr int64_t kHalf = 3'000'001;
  const auto values = [](int64_t rank, double add) {
    return at::arange(kHalf, at::kFloat) + static_cast<double>(rank) + add;
  };
  on_ranks({.shard = 2}, 1, [&](const comm::Groups& groups, const HostPlace& place) {
    const int64_t rank = groups.world.rank();
    const auto state = [&](const std::string& name, double add) {
      return parallel::State{{.name = name,
                              .shape = {2 * kHalf},
                              .pieces = {{.begin = rank * kHalf, .values = values(rank, add)}}}};
    };
    MemoryCopies copies(memory_of(place.host), place);
    copies.write(1, state("w", 0), state("exp_avg.w", 0.5), {{kState, "{}"}}, groups.world,
                 /*sends=*/true);
  });
  for (const int host : {0, 1}) {
    SCOPED_TRACE(host);
    const auto whole = [&](const std::string& name) {
      return parallel::State{{.name = name,
                              .shape = {2 * kHalf},
                              .pieces = {{.values = at::zeros({2 * kHalf}, at::kFloat)}}}};
    };
    auto weights = whole("w"), moments = whole("exp_avg.w");
    load_weights(copy_of(host, 1), weights, {});
    load_optimizer(copy_of(host, 1) / kOptimizer, moments, {});
    EXPECT_TRUE(weights[0].pieces[0].values.equal(at::cat({values(0, 0), values(1, 0)})));
    EXPECT_TRUE(moments[0].pieces[0].values.equal(at::cat({values(0, 0.5), values(1, 0.5)})));
  }
}

TEST(HostShare, IsNothingWhereAHostLacksSome) {
  const auto share = [](const parallel::Degrees& mesh, int rank, int ranks_of_host, bool sharded) {
    const parallel::Mesh place(mesh, rank, static_cast<int>(mesh.product()));
    return parallel::host_share(place, rank / ranks_of_host * ranks_of_host, ranks_of_host,
                                sharded);
  };
  EXPECT_TRUE(share({.shard = 4}, 3, 2, false));
  EXPECT_FALSE(share({.shard = 4}, 3, 2, true));
  EXPECT_TRUE(share({.replicate = 2, .shard = 2}, 3, 2, true));
  EXPECT_FALSE(share({.pipeline = 2, .shard = 2}, 1, 2, false));
  EXPECT_FALSE(share({.shard = 2, .tensor = 2}, 1, 1, false));
  EXPECT_TRUE(share({.pipeline = 2, .shard = 2}, 1, 4, true));
  EXPECT_FALSE(share({.replicate = 2, .context = 2}, 1, 1, true));
}

TEST_F(HostCopies, ComeToHostsThatLackThem) {
  copy({.shard = 3}, 1, 0, 4);
  copy({.shard = 3}, 1, 0, 8);
  make_host(0);
  make_host(2);
  std::ofstream(copy_of(1, 8) / "other.json") << "{\"a\": 1}";
  std::ofstream(copy_of(1, 8) / "own") << "of host 1";
  on_ranks({.shard = 6}, 2, [&](const comm::Groups& groups, const HostPlace& place) {
    std::vector<int64_t> steps;
    if (place.host == 1) steps = {4, 8};
    const auto held = tell_copies(steps, place, groups.world);
    EXPECT_EQ(held.all(), (std::vector<int64_t>{8, 4}));
    EXPECT_TRUE(held.holds(1, 4));
    EXPECT_FALSE(held.all_hold(8));
    EXPECT_EQ(held.first_rank, (std::vector<int>{0, 2, 4}));
    const auto shared = share_copy(8, held, CopySlots(memory_of(place.host)), place,
                                   {{"own", fmt::format("of host {}", place.host)}}, groups.world);
    EXPECT_TRUE(shared.is_whole);
    EXPECT_TRUE(shared.warnings.empty());
  });
  expect_whole(3, 8);
  for (int host : {0, 1, 2}) {
    EXPECT_EQ(read_file(copy_of(host, 8) / "other.json"), "{\"a\": 1}");
    EXPECT_EQ(read_file(copy_of(host, 8) / "own"), fmt::format("of host {}", host));
    EXPECT_EQ(fs::exists(copy_of(host, 4)), host == 1);
  }
}

// Of equal replicas one sums what it reads: the others' copies must be looked at, too.
TEST_F(HostCopies, AFlippedBitOfAnyHostIsNoticed) {
  copy({.replicate = 2, .shard = 2}, 2, 3, 2);
  for (const int host : {0, 1}) {
    for (const char* file : {"model.safetensors", "optimizer.safetensors", kState}) {
      SCOPED_TRACE(fmt::format("{} of host {}", file, host));
      const auto expect_broken = [&](const std::vector<int>& hosts) {
        on_ranks({.replicate = 2, .shard = 2}, 2,
                 [&](const comm::Groups& groups, const HostPlace& place) {
                   const auto held = tell_copies({2}, place, groups.world);
                   const auto broken =
                       find_broken(2, held, CopySlots(memory_of(place.host)), place, groups.world);
                   EXPECT_EQ(broken.hosts, hosts) << "all ranks learn of it";
                   EXPECT_EQ(broken.why.empty(), hosts.empty());
                 });
      };
      flip(host, 2, file);
      expect_broken({host});
      flip(host, 2, file);
      expect_broken({});
    }
  }
}

// Hosts 0 and 1 hold two steps, host 2 is new.
TEST_F(HostCopies, AWholeCopyIsTakenFromAnotherHostOrTheOneBefore) {
  for (const bool all_broken : {false, true}) {
    SCOPED_TRACE(all_broken);
    for (int host = 0; host < 3; ++host) make_host(host);
    copy({.shard = 3}, 1, 0, 4);
    copy({.shard = 3}, 1, 0, 8);
    make_host(2);
    flip(0, 8, "model.safetensors");
    if (all_broken) flip(1, 8, "optimizer.safetensors");
    on_ranks({.shard = 3}, 1, [&](const comm::Groups& groups, const HostPlace& place) {
      const CopySlots slots(memory_of(place.host));
      std::vector<int64_t> steps;
      if (place.host < 2) steps = {4, 8};
      auto held = tell_copies(steps, place, groups.world);
      const auto shared = share_copy(8, held, slots, place, {}, groups.world);
      EXPECT_EQ(shared.is_whole, !all_broken);
      ASSERT_EQ(shared.warnings.size(), 1u);
      EXPECT_TRUE(shared.warnings[0].starts_with(
          all_broken ? "the memory copy of step 8 is passed over: "
                     : "the memory copy of step 8 is dropped on host 0: "))
          << shared.warnings[0];
      if (!all_broken) return;
      if (place.host < 2) steps = {4};
      held = tell_copies(steps, place, groups.world);
      EXPECT_TRUE(share_copy(4, held, slots, place, {}, groups.world).is_whole);
    });
    expect_whole(3, all_broken ? 4 : 8);
    EXPECT_TRUE(fs::exists(copy_of(1, 4)));
    EXPECT_EQ(fs::exists(copy_of(1, 8)), !all_broken);
  }
}

TEST_F(HostCopies, AHostWithoutRoomIsAnErrorOnAll) {
  copy({.shard = 2}, 1, 0, 2);
  make_host(1);
  fs::remove(memory_of(1) / "memory-2");
  fs::remove(memory_of(1) / "memory-0");
  std::atomic<int> errors = 0;
  on_ranks({.shard = 2}, 1, [&](const comm::Groups& groups, const HostPlace& place) {
    std::vector<int64_t> own;
    if (place.host == 0) own = {2};
    const auto held = tell_copies(own, place, groups.world);
    try {
      bring_copy(2, held, CopySlots(memory_of(place.host)), place, {}, groups.world);
    } catch (const FileError&) {
      ++errors;
    }
  });
  EXPECT_EQ(errors, 2);
  expect_whole(1, 2);
}

}  // namespace
}  // namespace convoy::checkpoint
