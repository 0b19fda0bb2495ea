#include "cli/memory_watch.h"

#include <c10/core/CPUAllocator.h>
#include <c10/util/Exception.h>
#include <fmt/format.h>
#include <malloc.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>

#include "convoy/base/tensor_memory.h"
#include "convoy/base/text.h"
#include "convoy/machine/host.h"
#include "convoy/machine/memory_limit.h"
#include "convoy/machine/resident.h"
#include "convoy/nn/shapes_only.h"
#include "convoy/planner/estimate/memory_check.h"
#include "convoy/report/progress_output.h"

namespace convoy::cli {
namespace {

constexpr int64_t kStep = 64 << 20;

c10::Allocator* below = nullptr;
int64_t most = 0;  // that this process can have
std::atomic<int64_t> next_look{0};
std::atomic<bool> warned{false};

#if defined(__aarch64__)

/// Memory of this program's allocator: torch's wheel for Arm takes that of tensors from a mimalloc
/// within it, which nobody can ask for sizes and which returns pages to the system.
class OwnMemory final : public c10::Allocator {
 public:
  c10::DataPtr allocate(size_t bytes) override {
    constexpr size_t kAlignment = 64;  // c10's
    void* memory = nullptr;
    const bool failed = bytes > 0 && ::posix_memalign(&memory, kAlignment, bytes) != 0;
    TORCH_CHECK(!failed, "not enough memory: you tried to allocate ", bytes, " bytes");
    return {memory, memory, &std::free, c10::Device(c10::DeviceType::CPU)};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &std::free; }
  void copy_data(void* to, const void* from, size_t bytes) const override {
    default_copy_data(to, from, bytes);
  }
};

c10::Allocator* usual_memory() {
  static OwnMemory own;
  return &own;
}

#else

c10::Allocator* usual_memory() {
  return c10::GetCPUAllocator();
}

#endif

int64_t bytes_of(void* memory) {
  return memory == nullptr ? 0 : static_cast<int64_t>(::malloc_usable_size(memory));
}

void release(void* memory) {
  tensor_memory.add(-bytes_of(memory));
  below->raw_deleter()(memory);
}

/// Warns once where memory is short for `bytes` more, or for bytes that were allocated but not
/// written: the kernel assigns pages at the first write.
void look(int64_t bytes, int64_t now) {
  next_look = now + kStep;
  const int64_t available = machine::available_memory();
  const int64_t needed = std::max(bytes, now - machine::resident_bytes());
  if (available == 0 || needed + kStep < available || warned.exchange(true)) return;
  report::show_progress(wrap("warning: " + planner::little_memory(needed, available), 9) + "\n",
                        stderr);
}

class Watching final : public c10::Allocator {
 public:
  c10::DataPtr allocate(size_t bytes) override {
    auto data = below->allocate(bytes);
    if (!data.compare_exchange_deleter(below->raw_deleter(), &release)) return data;
    const int64_t taken = bytes_of(data.get());
    const int64_t now = tensor_memory.add(taken);
    // A pool says what was rounded up once it has it.
    const auto asked = now - taken + static_cast<int64_t>(bytes);
    const bool is_written = !nn::shapes_only();  // else the kernel has nothing to hand out
    const bool fits = (most == 0 || now <= most || !is_written) && tensor_memory.allows(asked);
    TORCH_CHECK(fits, "not enough memory: you tried to allocate ", bytes, " bytes");
    if (is_written && now > next_look) look(taken, now);
    return data;
  }
  c10::DeleterFnPtr raw_deleter() const override { return &release; }
  void copy_data(void* to, const void* from, size_t bytes) const override {
    default_copy_data(to, from, bytes);
  }
};

}  // namespace

void watch_memory() {
  static Watching watching;
  below = usual_memory();
  const int64_t limit = machine::memory_limit().bytes;
  most = limit > 0 ? limit + machine::read_host().swap_bytes : 0;
  tensor_memory.begin_counting();
  c10::SetCPUAllocator(&watching);
}

}  // namespace convoy::cli
