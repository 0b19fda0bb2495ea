#include <dlfcn.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <vector>

namespace convoy {
namespace {

constexpr size_t kMiB = size_t{1} << 20;

/// An flat buffers of jemalloc's, as this process has it: mallocx(3).
class FlatBuffers {
 public:
  FlatBuffers() {
    control_ = reinterpret_cast<Control>(::dlsym(RTLD_DEFAULT, "mallctl"));
    take_ = reinterpret_cast<Take>(::dlsym(RTLD_DEFAULT, "mallocx"));
    give_ = reinterpret_cast<Give>(::dlsym(RTLD_DEFAULT, "dallocx"));
    size_t size = sizeof number_;
    if (exists()) {
      EXPECT_EQ(control_("arenas.create", &number_, &size, nullptr, 0), 0);
    }
  }

  bool exists() const { return control_ != nullptr && take_ != nullptr && give_ != nullptr; }

  std::vector<void*> take(int blocks, size_t bytes) const {
    std::vector<void*> out;
    for (int i = 0; i < blocks; ++i) out.push_back(take_(bytes, flags()));
    return out;
  }

  void give(const std::vector<void*>& blocks) const {
    for (void* block : blocks) give_(block, flags());
  }

  size_t mapped() const {
    uint64_t epoch = 1;
    EXPECT_EQ(control_("epoch", nullptr, nullptr, &epoch, sizeof epoch), 0);
    size_t bytes = 0, size = sizeof bytes;
    const auto name = "stats.arenas." + std::to_string(number_) + ".mapped";
    EXPECT_EQ(control_(name.c_str(), &bytes, &size, nullptr, 0), 0);
    return bytes;
  }

 private:
  using Control = int (*)(const char*, void*, size_t*, void*, size_t);
  using Take = void* (*)(size_t, int);
  using Give = void (*)(void*, int);

  /// Of this flat buffers, past the thread's cache.
  int flags() const { return (1 << 8) | static_cast<int>(number_ + 1) << 20; }

  Control control_ = nullptr;
  Take take_ = nullptr;
  Give give_ = nullptr;
  unsigned number_ = 0;
};

TEST(Allocator, TakesSmallBlocksFromLargeFreeOnes) {
  const FlatBuffers flat;
  if (!flat.exists()) GTEST_SKIP() << "jemalloc is not part of this build";
  flat.give(flat.take(1, 500 * kMiB));
  const auto before = flat.mapped();
  const auto blocks = flat.take(64, kMiB / 4);
  EXPECT_LE(flat.mapped(), before + kMiB);
  flat.give(blocks);
}

}  // namespace
}  // namespace convoy
