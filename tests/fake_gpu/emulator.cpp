// Runs kernels of our own on the processor: the blocks of a grid one after the other, the threads
// of a block in turns, on memory that the launch has named and on nothing else.
#include "tests/fake_gpu/emulator.h"

#include <sys/mman.h>
#include <unistd.h>

#include <map>
#include <mutex>
#include <vector>

#include "tests/fake_gpu/fibers.h"
#include "tests/fake_gpu/memory.h"
#include "tests/fake_gpu/operation.h"
#include "tests/fake_gpu/symbols.h"

namespace convoy::fake_gpu {

namespace {

// Of the kernel that runs: one in the process, see OpenedPages.
Index thread, block, threads, blocks;

/// As convoy/gpu/kernel.h has them.
struct LaunchOperands {
  std::vector<at::Tensor> reads, writes, updates;
};
struct LaunchUnderWay {
  const char* name;
  const LaunchOperands* operands;
};

/// What the program says of the launch that it makes.
const LaunchUnderWay& launch_of_program() {
  using Ask = const LaunchUnderWay* (*)();
  static const auto ask =
      reinterpret_cast<Ask>(program_symbol("_ZN6convoy3gpu16launch_under_wayEv"));
  TORCH_CHECK(ask != nullptr, "fake_gpu: the program does not say which tensors a kernel uses");
  const auto* launch = ask();
  TORCH_CHECK(launch != nullptr, "fake_gpu: a kernel is launched beside gpu::Kernel");
  return *launch;
}

/// Pages of a device's guarded memory that a kernel may touch while this lives. Others may not run
/// one meanwhile: their pages would close.
class OpenedPages {
 public:
  explicit OpenedPages(const LaunchOperands& operands) : lock_(mutex()) {
    for (const auto& tensor : operands.reads) add(tensor, PROT_READ);
    for (const auto* written : {&operands.writes, &operands.updates}) {
      for (const auto& tensor : *written) add(tensor, PROT_READ | PROT_WRITE);
    }
    each_run([](uintptr_t page, size_t count, int rights) { protect(page, count, rights); });
  }
  ~OpenedPages() {
    each_run([](uintptr_t page, size_t count, int) { protect(page, count, PROT_NONE); });
  }
  OpenedPages(const OpenedPages&) = delete;
  OpenedPages& operator=(const OpenedPages&) = delete;

 private:
  static constexpr uintptr_t kPage = 4096;

  void add(const at::Tensor& tensor, int rights) {
    const auto span = span_of(tensor);
    if (!tensor.defined() || !tensor.is_cuda() || span.empty()) return;
    for (uintptr_t page = span.begin / kPage; page <= (span.end - 1) / kPage; ++page) {
      pages_[page] |= rights;
    }
  }

  /// Calls use(first page, number, rights) for neighbouring pages of equal rights.
  template <class Use>
  void each_run(const Use& use) const {
    for (auto i = pages_.begin(); i != pages_.end();) {
      const auto [first, rights] = *i;
      size_t count = 0;
      for (; i != pages_.end() && i->first == first + count && i->second == rights; ++i) ++count;
      use(first, count, rights);
    }
  }

  static std::mutex& mutex() {
    static auto* one = new std::mutex;
    return *one;
  }
  static void protect(uintptr_t page, size_t count, int rights) {
    ::mprotect(reinterpret_cast<void*>(page * kPage), count * kPage, rights);
  }

  std::lock_guard<std::mutex> lock_;
  std::map<uintptr_t, int> pages_;
};

}  // namespace

}  // namespace convoy::fake_gpu

using namespace convoy::fake_gpu;

// The text of a kernel asks who it is, see nvrtc.cpp.
#define EXPORTED extern "C" __attribute__((visibility("default")))
EXPORTED const Index* fake_gpu_thread() {
  thread.x = current_fiber();
  return &thread;
}
EXPORTED const Index* fake_gpu_block() {
  return &block;
}
EXPORTED const Index* fake_gpu_threads() {
  return &threads;
}
EXPORTED const Index* fake_gpu_blocks() {
  return &blocks;
}
EXPORTED void fake_gpu_wait_for_block() {
  wait_for_block();
}
EXPORTED unsigned long long fake_gpu_swap_in_warp(unsigned long long value, unsigned lane) {
  return swap_in_warp(value, lane);
}

/// cuLaunchKernel with the device of the calling thread's context; -1: it has none. `handle` is as
/// the guard tells it, the number of a stream.
EXPORTED int fake_gpu_launch(void* function, int device, unsigned num_blocks, unsigned num_threads,
                             void* handle, void** arguments) {
  constexpr int kInvalidValue = 1, kInvalidContext = 201;
  constexpr unsigned kMostThreads = 1024;
  if (device < 0) return kInvalidContext;
  if (num_blocks == 0 || num_threads == 0 || num_threads > kMostThreads) return kInvalidValue;
  const c10::Stream stream(c10::Stream::UNSAFE, {c10::kCUDA, static_cast<c10::DeviceIndex>(device)},
                           reinterpret_cast<c10::StreamId>(handle));
  const auto& launch = launch_of_program();
  Operation operation(launch.name, stream);
  for (const auto& tensor : launch.operands->reads) operation.reads(tensor);
  for (const auto& tensor : launch.operands->writes) operation.writes(tensor);
  for (const auto& tensor : launch.operands->updates) {
    operation.reads(tensor);
    operation.writes(tensor);
  }
  const OpenedPages pages(*launch.operands);
  threads = {num_threads, 1, 1};
  blocks = {num_blocks, 1, 1};
  for (block = {}; block.x < num_blocks; ++block.x) {
    run_fibers(num_threads,
               [&](unsigned) { reinterpret_cast<ThreadOfKernel>(function)(arguments); });
  }
  return 0;
}
