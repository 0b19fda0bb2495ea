#include "tests/fake_gpu/memory.h"

#include <c10/util/Exception.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstring>
#include <sstream>

#include "tests/fake_gpu/allocator.h"
#include "tests/fake_gpu/device_lock.h"
#include "tests/fake_gpu/options.h"
#include "tests/fake_gpu/report.h"
#include "tests/fake_gpu/symbols.h"

namespace convoy::fake_gpu {

namespace {

constexpr size_t kMostDevices = 64;
std::array<std::atomic<const DeviceMemory*>, kMostDevices> memories;
struct sigaction before;

void tell_touch(const void* address, const void* code) {
  std::ostringstream text;
  const auto device = device_of(address);
  text << "the host touched memory of cuda:" << int{device};
  if (const auto found = find_allocation(address)) {
    text << ": byte " << static_cast<const char*>(address) - static_cast<const char*>(found->begin)
         << " of an allocation of " << found->bytes << " bytes made for " << to_text(*found->made)
         << (found->live ? "" : ", which was freed");
  } else {
    text << ", where nothing is allocated";
  }
  const auto place = place_of(code);
  text << "; by " << (place.function.empty() ? place.file : place.function);
  text << ", during " << to_text(*note("the program"));
  misused_quietly(text.str());
}

/// Building a text is not safe here in general; the process ends anyway.
void on_fault(int signal, siginfo_t* info, void* context) {
  if (device_of(info->si_addr) >= 0) {
    const auto* machine = static_cast<ucontext_t*>(context);
    tell_touch(info->si_addr, reinterpret_cast<const void*>(machine->uc_mcontext.gregs[REG_RIP]));
  }
  ::sigaction(signal, &before, nullptr);  // the same instruction faults again
}

void watch_faults() {
  struct sigaction action{};
  action.sa_sigaction = on_fault;
  action.sa_flags = SA_SIGINFO | SA_NODEFER;
  ::sigaction(SIGSEGV, &action, &before);
}

}  // namespace

DeviceMemory::DeviceMemory(size_t bytes)
    : file_(::memfd_create("fake_gpu", MFD_CLOEXEC)), size_(bytes) {
  TORCH_CHECK(file_ >= 0 && ::ftruncate(file_, static_cast<off_t>(bytes)) == 0,
              "fake_gpu: no memory for a device");
  void* guarded = ::mmap(nullptr, bytes, PROT_NONE, MAP_SHARED | MAP_NORESERVE, file_, 0);
  void* real = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, file_, 0);
  TORCH_CHECK(guarded != MAP_FAILED && real != MAP_FAILED, "fake_gpu: no addresses for a device");
  guarded_ = static_cast<char*>(guarded);
  real_ = static_cast<char*>(real);
}

bool DeviceMemory::holds(const void* address) const {
  const auto* at = static_cast<const char*>(address);
  return at >= guarded_ && at < guarded_ + size_;
}

char* DeviceMemory::real(const void* address) const {
  return real_ + (static_cast<const char*>(address) - guarded_);
}

void DeviceMemory::release(const void* address, size_t bytes) const {
  ::fallocate(file_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
              static_cast<const char*>(address) - guarded_, static_cast<off_t>(bytes));
}

const DeviceMemory& device_memory(c10::DeviceIndex device) {
  TORCH_CHECK(device >= 0 && device < options().devices, "CUDA error: invalid device ordinal");
  auto& place = memories.at(static_cast<size_t>(device));
  if (const auto* made = place.load(std::memory_order_acquire)) return *made;
  const Locked lock;
  if (place.load() == nullptr) {
    static const bool once = [] {
      watch_faults();
      return true;
    }();
    (void)once;
    // Segments come and go in any order: addresses are no scarce thing.
    place.store(new DeviceMemory(4 * options().memory + (size_t{1} << 30)),
                std::memory_order_release);
  }
  return *place.load();
}

c10::DeviceIndex device_of(const void* address) {
  for (size_t d = 0; d < kMostDevices; ++d) {
    const auto* made = memories[d].load(std::memory_order_acquire);
    if (made != nullptr && made->holds(address)) return static_cast<c10::DeviceIndex>(d);
  }
  return -1;
}

void* real(const void* address) {
  if (address == nullptr) return nullptr;
  const auto device = device_of(address);
  TORCH_CHECK(device >= 0,
              "CUDA error: an illegal memory access was encountered (fake_gpu: ", address,
              " is no device's)");
  return device_memory(device).real(address);
}

void poison(void* guarded, size_t bytes) {
  if (bytes > 0) std::memset(real(guarded), 0xff, bytes);
}

}  // namespace convoy::fake_gpu
