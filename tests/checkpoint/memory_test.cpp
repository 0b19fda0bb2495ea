#include <ATen/ATen.h>
#include <c10/core/CPUAllocator.h>
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <future>
#include <utility>

#include "convoy/base/files.h"
#include "convoy/checkpoint/folder.h"
#include "convoy/checkpoint/save.h"
#include "convoy/checkpoint/weights.h"
#include "convoy/parallel/strategy/strategy.h"
#include "tests/comm/ranks_testing.h"
#include "tests/models/testing.h"

// No rank ever holds more of a model than its pieces, a save's copy of them, and one tensor.
namespace convoy::checkpoint {
namespace {

namespace fs = std::filesystem;
constexpr int kRanks = 2;
constexpr int64_t kSlack = 64 << 10;  // checksums, names, words to each other

thread_local size_t this_rank = kRanks;  // kRanks: threads of nobody

/// Counts what each rank's tensors take.
class Counter : public c10::Allocator {
 public:
  explicit Counter(c10::Allocator* inner) : inner_(inner) {}

  c10::DataPtr allocate(size_t bytes) override {
    auto& use = uses_[this_rank];
    const auto now = use.live += static_cast<int64_t>(bytes);
    for (auto peak = use.peak.load(); peak < now && !use.peak.compare_exchange_weak(peak, now);) {
    }
    auto* block = new Block{inner_->allocate(bytes), bytes, &use};
    return {block->memory.get(), block, &give_back, at::kCPU};
  }
  void copy_data(void* to, const void* from, size_t bytes) const override {
    default_copy_data(to, from, bytes);
  }

  int64_t live(size_t rank) const { return uses_[rank].live; }
  void forget_peak(size_t rank) { uses_[rank].peak = uses_[rank].live.load(); }
  /// Above what was live at forget_peak().
  int64_t peak(size_t rank) const { return uses_[rank].peak; }

 private:
  struct Use {
    std::atomic<int64_t> live{0}, peak{0};
  };
  struct Block {
    c10::DataPtr memory;
    size_t bytes;
    Use* use;
  };
  static void give_back(void* block) {
    const std::unique_ptr<Block> gone(static_cast<Block*>(block));
    gone->use->live -= static_cast<int64_t>(gone->bytes);
  }

  c10::Allocator* inner_;
  std::array<Use, kRanks + 1> uses_;
};

Counter& counter() {
  static auto* counter = [] {
    auto* made = new Counter(c10::GetCPUAllocator());  // tensors may outlive everything
    c10::SetCPUAllocator(made, /*priority=*/100);
    return made;
  }();
  return *counter;
}

/// Bytes that `work` holds on this rank at most, above what was there before.
int64_t growth(const std::function<void()>& work) {
  const auto before = counter().live(this_rank);
  counter().forget_peak(this_rank);
  work();
  return counter().peak(this_rank) - before;
}

int64_t bytes_of(const parallel::State& state) {
  int64_t bytes = 0;
  for (const auto& tensor : state) {
    for (const auto& piece : tensor.pieces) bytes += static_cast<int64_t>(piece.values.nbytes());
  }
  return bytes;
}

TEST(Memory, NoRankHoldsMoreThanItsPiecesACopyAndOneTensor) {
  const auto config = models::small_gpt2({2000, /*width=*/128, /*heads=*/4, /*layers=*/4, 32});
  const auto blocks = [&] { return config.make_blocks(); };
  const int64_t largest = config.vocab_size * config.n_embd * 4;
  const auto folder = unique_folder("convoy-memory");
  counter().forget_peak(kRanks);
  const auto of_nobody = counter().live(kRanks);
  comm::run_thread_ranks(kRanks, [&](const comm::Group& group) {
    this_rank = static_cast<size_t>(group.rank());
    parallel::ReplicaOptions options;
    options.parallelism.zero = 3;
    options.parallelism.bucket_bytes = 0;
    std::unique_ptr<parallel::Strategy> strategy;
    const auto start =
        growth([&] { strategy = parallel::make_process_strategy(blocks, group, options); });
    const auto pieces = bytes_of(strategy->weights()) + bytes_of(strategy->moments());
    EXPECT_GT(pieces, 4 * largest) << "the model is too small to show anything";
    // Weights, gradients and two moments.
    EXPECT_LE(start, pieces / 3 * 4 + largest + kSlack);

    const auto saved = growth([&] {
      BackgroundSave save({.folder = folder,
                           .weights = strategy->weights(),
                           .moments = strategy->moments(),
                           .max_shard_bytes = 1'000'000,
                           .beside = true},
                          group);
      save.finish();
    });
    EXPECT_GE(saved, pieces) << "the allocator does not count";
    EXPECT_LE(saved, pieces + largest + kSlack);

    // As ranks that find the files, and as one that does not.
    const auto unseen = folder / "none" / folder.filename();
    for (const auto& own : {folder, group.rank() == 0 ? folder : unseen}) {
      const auto loaded = growth([&] {
        load_weights(own, strategy->weights(), group);
        load_optimizer(own / kOptimizer, strategy->moments(), group);
        strategy->share(/*moments=*/true);
      });
      EXPECT_LE(loaded, largest + kSlack) << own;
    }
    this_rank = kRanks;
  });
  EXPECT_LE(counter().peak(kRanks) - of_nobody, kRanks * largest + kSlack)
      << "what the threads of saves and of engines took";
  fs::remove_all(folder);
}

TEST(Memory, ASaveOfRowsThatChangeOneByOneCopiesThoseAlone) {
  constexpr int64_t kRows = 20'000, kWidth = 64;
  at::manual_seed(5);
  const auto folder = unique_folder("convoy-held-rows");
  make_folder(folder);
  const auto rows = at::randn({kRows, kWidth});
  const auto before = rows.clone();
  const auto changing = std::make_shared<parallel::ChangingRows>(rows);
  const auto state = [&](const std::string& name) {
    parallel::StateTensor tensor{name, {kRows, kWidth}};
    tensor.pieces.push_back({.begin = 0, .values = rows, .stride = kWidth, .changing = changing});
    return parallel::State{tensor};
  };
  std::promise<void> changed;
  const auto until_changed = changed.get_future().share();
  const auto of_nobody = counter().live(kRanks);
  this_rank = 0;
  const auto grown = growth([&] {
    BackgroundSave save({.folder = folder,
                         .weights = state("w"),
                         .moments = state("m"),
                         .max_shard_bytes = int64_t{1} << 30,
                         .beside = true,
                         .first = [&] { until_changed.wait(); }},
                        comm::Group());
    counter().forget_peak(kRanks);
    for (int64_t step = 0; step < 20; ++step) {
      const auto index = at::arange(step * 3, kRows, 500);
      changing->about_to_change(index);
      at::Tensor(rows).index_fill_(0, index, -1);
    }
    changed.set_value();
    save.finish();
  });
  this_rank = kRanks;
  const auto table = kRows * kWidth * 4;
  EXPECT_LT(grown + counter().peak(kRanks) - of_nobody, table * 2 / 3)
      << "of the " << 2 * table << " bytes that are saved";
  const auto saved = [&](const std::string& name) {
    auto out = at::zeros({kRows, kWidth});
    auto read = state(name);
    read[0].pieces[0].values = out;
    read[0].pieces[0].changing = nullptr;
    name == "w" ? (void)load_weights(folder, read, comm::Group())
                : (void)load_optimizer(folder / kOptimizer, read, comm::Group());
    return out;
  };
  EXPECT_TRUE(at::equal(saved("w"), before));
  EXPECT_TRUE(at::equal(saved("m"), before));
  EXPECT_FALSE(at::equal(rows, before));
  fs::remove_all(folder);
}

}  // namespace
}  // namespace convoy::checkpoint
