#include "convoy/launch/supervise/kept_memory.h"

#include <gtest/gtest.h>

#include "convoy/base/files.h"

namespace convoy::launch {
namespace {

namespace fs = std::filesystem;

TEST(KeptMemory, HoldsWhatIsWrittenUntilItEnds) {
  const auto folder = unique_folder("convoy-kept");
  std::string target;
  {
    KeptMemory memory(folder / "memory");
    for (int i = 0; i < KeptMemory::kFiles; ++i) {
      std::ofstream(folder / "memory" / fmt::format("memory-{}", i)) << "text " << i;
    }
    for (int i = 0; i < KeptMemory::kFiles; ++i) {
      EXPECT_EQ(read_file(folder / "memory" / fmt::format("memory-{}", i)),
                fmt::format("text {}", i));
    }
    target = fs::read_symlink(folder / "memory/memory-0").string();
    EXPECT_TRUE(fs::exists(target));
  }
  EXPECT_FALSE(fs::exists(target)) << "the memory is free";
  fs::remove_all(folder);
}

TEST(KeptMemory, ForgetsAllButTheEmptyFiles) {
  const auto folder = unique_folder("convoy-kept");
  KeptMemory memory(folder);
  fs::create_directory(folder / "checkpoint-7");
  fs::create_symlink("../memory-0", folder / "checkpoint-7/model.safetensors");
  std::ofstream(folder / "memory-0") << "text";
  EXPECT_TRUE(memory.forget());
  EXPECT_FALSE(memory.forget());
  EXPECT_FALSE(fs::exists(folder / "checkpoint-7"));
  EXPECT_EQ(read_file(folder / "memory-0"), "");
  fs::remove_all(folder);
}

}  // namespace
}  // namespace convoy::launch
