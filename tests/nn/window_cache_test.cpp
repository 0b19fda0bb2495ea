#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "convoy/nn/attention/attention.h"
#include "convoy/nn/attention/kv_cache.h"
#include "convoy/nn/block.h"

namespace convoy::nn {
namespace {

constexpr int64_t kRows = 2, kKeyHeads = 2, kWidth = 6, kCapacity = 3000;

at::Tensor some(int64_t positions, int64_t heads = kKeyHeads) {
  return at::randn({kRows, heads, positions, kWidth});
}

/// All positions so far, and the cache of a window beside them.
struct Beside {
  explicit Beside(int64_t width) : window(width) {}

  void append(int64_t count) {
    const auto k = some(count), v = some(count);
    const int64_t before = std::min(window, keys.size(2));
    keys = at::cat({keys, k}, 2);
    values = at::cat({values, v}, 2);
    const auto seen = cache.append(0, 0, k, v, window);
    cache.advance(count);
    const int64_t wanted = before + count, first = keys.size(2) - wanted;
    ASSERT_EQ(seen.keys.size(2), wanted);
    EXPECT_TRUE(at::equal(seen.keys, keys.narrow(2, first, wanted)));
    EXPECT_TRUE(at::equal(seen.values, values.narrow(2, first, wanted)));
  }

  int64_t window;
  KvCache cache{kCapacity};
  at::Tensor keys = some(0), values = some(0);
};

TEST(WindowCache, ReturnsTheWindowBeforeWhatComes) {
  for (const int64_t window : {1, 5, 700}) {
    for (const int64_t first : {1, 40, 1500}) {
      Beside it(window);
      it.append(first);
      for (int64_t i = 0; i < 400; ++i) it.append(1);
      for (const int64_t count : {70, 127, 128, 129, 3, 300, 1}) it.append(count);
    }
  }
}

TEST(WindowCache, HoldsLittleMoreThanTheWindow) {
  constexpr int64_t kPosition = 2 * kRows * kKeyHeads * kWidth * 4;  // bytes
  Beside it(16);
  it.append(900);
  EXPECT_EQ(it.cache.bytes(), (16 + 128) * kPosition);
  EXPECT_EQ(KvCache::room(kCapacity, 16), 16 + 128);
  EXPECT_EQ(KvCache::room(kCapacity, 1024), 1024 + 256);
  EXPECT_EQ(KvCache::room(100, 1024), 100);
  EXPECT_EQ(KvCache::room(kCapacity, 0), kCapacity);
}

TEST(WindowCache, GoesBackAsFarAsItsWindowIsThere) {
  Beside it(16);
  it.append(400);
  for (int64_t i = 0; i < 300; ++i) {
    it.append(1);
    const int64_t length = it.cache.length() - 1 - i % 40;
    ASSERT_TRUE(it.cache.go_back_to(length)) << i;
    it.keys = it.keys.narrow(2, 0, length);
    it.values = it.values.narrow(2, 0, length);
    it.append(1 + i % 40);
  }
  const int64_t before = it.cache.length();
  EXPECT_FALSE(it.cache.go_back_to(before - 140));
  EXPECT_EQ(it.cache.length(), before);
  Beside all(16);
  all.append(100);
  EXPECT_TRUE(all.cache.go_back_to(0));
}

TEST(WindowCache, AttentionIsThatOfAllPositions) {
  constexpr int64_t kWindow = 20, kAll = 420;
  for (const double cap : {0.0, 0.7}) {
    const auto q = some(kAll, 4), k = some(kAll), v = some(kAll);
    AttentionOptions options;
    options.window = kWindow;
    options.cap = cap;
    options.key_mask = at::ones({kRows, kAll}, at::kBool);
    options.key_mask[1].narrow(0, 0, 190).fill_(false);
    Context context;
    context.mode = Mode::Predict;
    const auto whole = attention(q, k, v, options, context);
    KvCache cache(kAll);
    context.cache = &cache;
    std::vector<at::Tensor> parts;
    for (int64_t begin = 0; begin < kAll;) {
      const int64_t count = begin == 0 ? 200 : begin == 260 ? 30 : 1;
      auto here = options;
      here.key_mask = options.key_mask.narrow(1, 0, begin + count);
      const auto of = [&](const at::Tensor& x) { return x.narrow(2, begin, count); };
      parts.push_back(attention(of(q), of(k), of(v), here, context));
      cache.advance(count);
      begin += count;
    }
    EXPECT_LT(cache.bytes(), kAll * 2 * kRows * kKeyHeads * kWidth * 4 / 2);
    auto off = (at::cat(parts, 2) - whole).abs();
    off[1].narrow(1, 0, 190).zero_();  // what padding sees is nobody's business
    EXPECT_LT(off.max().item<double>(), 1e-5) << cap;
  }
}

}  // namespace
}  // namespace convoy::nn
