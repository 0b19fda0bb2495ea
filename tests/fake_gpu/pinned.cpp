#include "tests/fake_gpu/pinned.h"

#include <dlfcn.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <list>
#include <map>

#include "tests/fake_gpu/device_lock.h"
#include "tests/fake_gpu/memory.h"
#include "tests/fake_gpu/options.h"
#include "tests/fake_gpu/report.h"

namespace convoy::fake_gpu {

namespace {

struct Block {
  size_t size = 0;
  bool ours = false;  // not registered by the program
  bool used = false;
  Clock until;  // when nobody uses it any more
};

/// A copy under way. Down: `data` is to come. Up: the sum of what it should find.
struct Copy {
  Range host;
  Access access;
  std::vector<char> data;
  uint64_t sum = 0;
};

struct Pinned {
  std::map<uintptr_t, Block> blocks;
  std::list<Copy> up, down;
};

Pinned& all() {
  static auto* pinned = new Pinned;
  return *pinned;
}

bool overlap(Range a, Range b) {
  return a.begin < b.end && b.begin < a.end;
}

char* bytes_at(uintptr_t address) {
  return reinterpret_cast<char*>(address);
}

uint64_t sum_of(Range range) {
  uint64_t sum = 0x9E3779B97F4A7C15u;
  const char* at = bytes_at(range.begin);
  size_t left = range.end - range.begin;
  for (uint64_t word = 0; left > 0; at += sizeof word) {
    word = 0;
    const size_t take = std::min(left, sizeof word);
    std::memcpy(&word, at, take);
    sum = (sum ^ word) * 0x100000001B3u;
    sum ^= sum >> 29;
    left -= take;
  }
  return sum;
}

std::map<uintptr_t, Block>::iterator block_at(const void* address) {
  auto& blocks = all().blocks;
  const auto at = reinterpret_cast<uintptr_t>(address);
  auto found = blocks.upper_bound(at);
  if (found == blocks.begin()) return blocks.end();
  --found;
  return at < found->first + found->second.size ? found : blocks.end();
}

/// NaN in 16, 32 and 64 bits, another on each rank: ranks that compare memory too early find it.
unsigned char byte_of_nan() {
  const char* rank = std::getenv("RANK");
  const int number = rank == nullptr ? 0xf : std::atoi(rank) % 0xf;
  return static_cast<unsigned char>(0xf0 | number);
}

void fill_with_nan(void* memory, size_t bytes) {
  static const unsigned char byte = byte_of_nan();
  auto* at = static_cast<unsigned char*>(memory);
  for (size_t i = 0; i < bytes; ++i) at[i] = i % 2 == 0 ? byte : 0xff;
}

void check_source(const Copy& copy) {
  if (sum_of(copy.host) == copy.sum) return;
  misused("the source of " + to_text(*copy.access.note) + " on " +
          name_of_line(copy.access.stamp.line) + ", " +
          std::to_string(copy.host.end - copy.host.begin) +
          " bytes of pinned memory, changed before the copy was known to be done");
}

class PinnedAllocator final : public at::HostAllocator {
 public:
  c10::DataPtr allocate(size_t bytes) override {
    if (bytes == 0) return {nullptr, nullptr, &give_back, at::kCPU};
    size_t size = 1;
    while (size < bytes) size *= 2;
    const Locked lock;
    uintptr_t found = 0;
    for (auto& [address, block] : all().blocks) {
      if (!block.ours || block.used || block.size != size ||
          !(host_knows(block.until) || mutated("early_pinned_reuse"))) {
        continue;
      }
      found = address;
      break;
    }
    if (found == 0) {
      const size_t mapped = std::max(size, size_t{4096});
      void* memory =
          ::mmap(nullptr, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
      TORCH_CHECK(memory != MAP_FAILED, "CUDA error: out of memory (pinned)");
      found = reinterpret_cast<uintptr_t>(memory);
    }
    forget({found, found + size});
    all().blocks[found] = {size, true, true, {}};
    std::memset(bytes_at(found), 0xff, size);
    return {bytes_at(found), bytes_at(found), &give_back, at::kCPU};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &give_back; }
  void copy_data(void* to, const void* from, size_t bytes) const override {
    std::memcpy(to, from, bytes);
  }
  bool record_event(void* pointer, void*, c10::Stream stream) override {
    const Locked lock;
    const auto block = block_at(pointer);
    if (block == all().blocks.end()) return false;
    block->second.until.join(reached(stream));
    return true;
  }
  void empty_cache() override {}
  at::HostStats get_stats() override { return {}; }
  void reset_accumulated_stats() override {}
  void reset_peak_stats() override {}

 private:
  static void give_back(void* memory) {
    if (memory == nullptr) return;
    const Locked lock;
    block_at(memory)->second.used = false;
  }
};

int register_memory(void* memory, size_t bytes, unsigned) {
  pin(memory, bytes);
  return 0;
}

int unregister_memory(void* memory) {
  unpin(memory);
  return 0;
}

/// Makes the first instructions of `name` jump to `to`.
void divert(const char* name, const void* to) {
  auto* code = static_cast<unsigned char*>(::dlsym(RTLD_DEFAULT, name));
  if (code == nullptr) return;
  const auto page = static_cast<uintptr_t>(::sysconf(_SC_PAGESIZE));
  const auto begin = reinterpret_cast<uintptr_t>(code) / page * page;
  if (::mprotect(bytes_at(begin), 2 * page, PROT_READ | PROT_WRITE | PROT_EXEC) != 0) return;
  constexpr std::array<unsigned char, 2> kLoad{0x48, 0xb8};  // mov rax, to
  constexpr std::array<unsigned char, 2> kJump{0xff, 0xe0};  // jmp rax
  std::memcpy(code, kLoad.data(), 2);
  std::memcpy(code + 2, &to, sizeof to);
  std::memcpy(code + 2 + sizeof to, kJump.data(), 2);
  ::mprotect(bytes_at(begin), 2 * page, PROT_READ | PROT_EXEC);
}

}  // namespace

at::HostAllocator& pinned_allocator() {
  static auto* one = new PinnedAllocator;
  return *one;
}

bool is_pinned(const void* address) {
  const Locked lock;
  return block_at(address) != all().blocks.end();
}

void pin(void* memory, size_t bytes) {
  const Locked lock;
  const auto begin = reinterpret_cast<uintptr_t>(memory);
  forget({begin, begin + bytes});
  all().blocks[begin] = {bytes, false, true, {}};
}

void unpin(void* memory) {
  const Locked lock;
  const auto block = block_at(memory);
  if (block == all().blocks.end()) return misused("memory is unpinned that is not pinned");
  const Range range{block->first, block->first + block->second.size};
  const auto busy = unknown_to_host(range);
  all().blocks.erase(block);
  std::erase_if(all().up, [&](const Copy& copy) { return overlap(copy.host, range); });
  std::erase_if(all().down, [&](const Copy& copy) { return overlap(copy.host, range); });
  if (busy)
    misused_quietly("pinned memory is given back while " + to_text(*busy->note) + " on " +
                    name_of_line(busy->stamp.line) + " may still use it");
}

void take_over_the_runtime() {
  divert("cudaHostRegister", reinterpret_cast<const void*>(&register_memory));
  divert("cudaHostUnregister", reinterpret_cast<const void*>(&unregister_memory));
}

void copy_up(void* device, const void* host, size_t bytes, Operation& operation) {
  const Locked lock;
  auto& pinned = all();
  const auto begin = reinterpret_cast<uintptr_t>(host);
  const Range range{begin, begin + bytes};
  operation.uses(range, false);
  auto* to = static_cast<char*>(real(device));
  std::memcpy(to, host, mutated("short_upload") ? bytes / 2 : bytes);
  bool made_by_device = false;
  for (const auto& copy : pinned.down) {  // which the stream has seen complete
    if (!overlap(copy.host, range)) continue;
    made_by_device = true;
    const auto from = std::max(copy.host.begin, begin), end = std::min(copy.host.end, range.end);
    std::memcpy(to + (from - begin), copy.data.data() + (from - copy.host.begin), end - from);
  }
  pinned_allocator().record_event(const_cast<void*>(host), nullptr, operation.stream());
  // Another thread's event on this stream may have told the host of the operation already.
  if (made_by_device || host_knows(operation.access().stamp)) return;
  pinned.up.push_back({range, operation.access(), {}, sum_of(range)});
}

void copy_down(void* host, const void* device, size_t bytes, Operation& operation) {
  const Locked lock;
  auto& pinned = all();
  const auto begin = reinterpret_cast<uintptr_t>(host);
  const Range range{begin, begin + bytes};
  operation.uses(range, true);
  for (auto copy = pinned.up.begin(); copy != pinned.up.end();) {
    const bool ends = overlap(copy->host, range);
    if (ends) check_source(*copy);
    copy = ends ? pinned.up.erase(copy) : std::next(copy);
  }
  const auto* from = static_cast<const char*>(real(device));
  const size_t arrives = mutated("short_download") ? bytes / 2 : bytes;
  pinned.down.push_back({{begin, begin + arrives}, operation.access(), {from, from + arrives}, 0});
  fill_with_nan(host, bytes);
  pinned_allocator().record_event(host, nullptr, operation.stream());
}

void settle_copies() {
  const Locked lock;
  auto& pinned = all();
  for (auto copy = pinned.up.begin(); copy != pinned.up.end();) {
    if (!host_knows(copy->access.stamp)) {
      ++copy;
      continue;
    }
    const Copy done = std::move(*copy);
    copy = pinned.up.erase(copy);
    check_source(done);
  }
  for (auto copy = pinned.down.begin(); copy != pinned.down.end();) {
    if (!host_knows(copy->access.stamp)) {
      ++copy;
      continue;
    }
    std::memcpy(bytes_at(copy->host.begin), copy->data.data(), copy->data.size());
    copy = pinned.down.erase(copy);
  }
}

size_t num_copies_under_way() {
  const Locked lock;
  return all().down.size();
}

}  // namespace convoy::fake_gpu
