#include "convoy/comm/pinned.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <c10/core/Event.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <dlfcn.h>
#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <map>

#include "convoy/comm/pending.h"

namespace convoy::comm {

namespace {

/// Looks up a function of CUDA's runtime, which torch's CUDA library loads; null without it.
template <class Function>
Function runtime(const char* name) {
  return reinterpret_cast<Function>(::dlsym(RTLD_DEFAULT, name));
}

at::Tensor of_torch(int64_t bytes) {
  return at::empty({bytes}, at::TensorOptions().dtype(at::kByte).pinned_memory(true));
}

/// A buffer that devices fill behind the host's back.
struct Buffer {
  at::Tensor memory;
  std::map<c10::DeviceIndex, c10::Event> filled;  // by each of them
};

}  // namespace

at::Tensor bytes_of(const at::Tensor& tensor) {
  return tensor.detach().view({-1}).view(at::kByte);
}

at::Tensor pinned_bytes(int64_t bytes) {
  using Register = int (*)(void*, size_t, unsigned);
  using Unregister = int (*)(void*);
  constexpr unsigned kForAllDevices = 1;
  const auto pin = runtime<Register>("cudaHostRegister");
  const auto unpin = runtime<Unregister>("cudaHostUnregister");
  const auto size = static_cast<size_t>(bytes);
  if (pin == nullptr || unpin == nullptr || bytes == 0) return of_torch(bytes);
  void* memory = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return of_torch(bytes);
  if (pin(memory, size, kForAllDevices) != 0) {
    ::munmap(memory, size);
    return of_torch(bytes);
  }
  return at::from_blob(
      memory, {bytes},
      [unpin, size](void* address) {
        unpin(address);
        ::munmap(address, size);
      },
      at::kByte);
}

std::vector<std::vector<PinnedPiece>> rounds_of(const std::vector<int64_t>& sizes, int64_t room) {
  std::vector<std::vector<PinnedPiece>> rounds;
  int64_t left = 0;
  for (size_t t = 0; t < sizes.size(); ++t) {
    for (int64_t begin = 0; begin < sizes[t];) {
      if (left == 0) {
        rounds.emplace_back();
        left = room;
      }
      const int64_t bytes = std::min(left, sizes[t] - begin);
      rounds.back().push_back({t, begin, bytes});
      begin += bytes;
      left -= bytes;
    }
  }
  return rounds;
}

void download_all(const std::vector<std::pair<at::Tensor, at::Tensor>>& copies, int64_t room) {
  if (copies.empty()) return;
  const at::NoGradGuard no_grad;
  const auto device = copies.front().first.device();
  std::vector<int64_t> sizes;
  for (const auto& [from, to] : copies) sizes.push_back(static_cast<int64_t>(from.nbytes()));
  const auto rounds = rounds_of(sizes, room);
  if (!device.is_cpu()) finish_pending();
  std::array<Buffer, 2> buffers;
  const auto fill = [&](size_t round) {
    auto& buffer = buffers[round % 2];
    buffer.filled.clear();
    if (!buffer.memory.defined()) {
      buffer.memory = device.is_cpu() ? at::empty({room}, at::kByte) : of_torch(room);
    }
    int64_t place = 0;
    for (const auto& piece : rounds[round]) {
      const auto& from = copies[piece.tensor].first;
      buffer.memory.narrow(0, place, piece.bytes)
          .copy_(bytes_of(from).narrow(0, piece.begin, piece.bytes), /*non_blocking=*/true);
      place += piece.bytes;
      if (!from.is_cpu()) buffer.filled.try_emplace(from.device().index(), device.type());
    }
    for (auto& [index, event] : buffer.filled) {
      const at::Device own(device.type(), index);
      event.record(c10::impl::VirtualGuardImpl(device.type()).getStream(own));
    }
  };
  const auto empty = [&](size_t round) {
    auto& buffer = buffers[round % 2];
    for (auto& [index, event] : buffer.filled) event.synchronize();
    const auto* from = static_cast<const char*>(buffer.memory.const_data_ptr());
    for (const auto& piece : rounds[round]) {
      auto* to = static_cast<char*>(copies[piece.tensor].second.mutable_data_ptr());
      std::memcpy(to + piece.begin, from, static_cast<size_t>(piece.bytes));
      from += piece.bytes;
    }
  };
  for (size_t round = 0; round < rounds.size(); ++round) {
    fill(round);
    if (round > 0) empty(round - 1);
  }
  if (!rounds.empty()) empty(rounds.size() - 1);
}

}  // namespace convoy::comm
