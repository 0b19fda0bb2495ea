#include <ATen/ATen.h>
#include <c10/core/Event.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include "convoy/base/scratch_file.h"
#include "convoy/comm/pending.h"
#include "convoy/comm/pinned.h"
#include "convoy/comm/to_host.h"
#include "convoy/parallel/offload/torch/offload.h"

namespace convoy::parallel {

namespace {

class DiskStore : public OffloadStore {
 public:
  DiskStore(const std::filesystem::path& folder, int64_t bytes, const std::string& what)
      : file_(std::make_shared<ScratchFile>(folder, static_cast<size_t>(bytes), what)) {}

  Wait read(int64_t place, at::Tensor memory) override {
    auto host = on_host(memory);
    auto ticket = file_->read(static_cast<size_t>(place), host.data_ptr(), host.nbytes());
    return [host, memory, ticket]() mutable {
      ticket.wait();
      if (!host.is_same(memory)) memory.copy_(host, /*non_blocking=*/true);
    };
  }

  Wait write(int64_t place, at::Tensor memory) override {
    auto host = on_host(memory);
    if (!host.is_same(memory)) comm::download_into(host, memory);
    auto ticket = file_->write(static_cast<size_t>(place), host.data_ptr(), host.nbytes());
    return [host, ticket]() mutable { ticket.wait(); };
  }

  at::Tensor view(int64_t place, int64_t bytes) override {
    auto mapped = file_->map(static_cast<size_t>(place), static_cast<size_t>(bytes));
    return at::from_blob(
        mapped.get(), {bytes}, [file = file_, mapped](void*) mutable { mapped.reset(); },
        at::kByte);
  }

 private:
  static at::Tensor on_host(const at::Tensor& memory) {
    if (memory.is_cpu()) return memory;
    auto host = at::empty({memory.numel() + static_cast<int64_t>(ScratchFile::kAlignment)},
                          at::TensorOptions().dtype(at::kByte).pinned_memory(true));
    return aligned(host, memory.numel());
  }

  std::shared_ptr<ScratchFile> file_;
};

/// Store in the host's memory. Copies overlap with the device's computing, on a stream of their
/// own.
class HostStore : public OffloadStore {
 public:
  HostStore(int64_t bytes, at::Device device)
      : memory_(device.is_cpu() ? at::empty({bytes}, at::kByte) : comm::pinned_bytes(bytes)) {
    memory_.zero_();
    if (device.is_cpu()) return;
    const c10::impl::VirtualGuardImpl device_of(device.type());
    stream_ = device_of.getStreamFromGlobalPool(device);
  }

  ~HostStore() override {
    if (!stream_) return;
    try {
      comm::finish_pending();
    } catch (const std::exception&) {  // NOLINT(bugprone-empty-catch): whoever needs numbers tells
    }
    if (comm::is_stuck()) {
      new at::Tensor(memory_);  // the GPU may copy there yet: it stays until the process ends
    } else {
      stream_->synchronize();
    }
  }
  HostStore(const HostStore&) = delete;
  HostStore& operator=(const HostStore&) = delete;

  Wait read(int64_t place, at::Tensor memory) override {
    return copy(memory, memory_.narrow(0, place, memory.numel()));
  }
  Wait write(int64_t place, at::Tensor memory) override {
    return copy(memory_.narrow(0, place, memory.numel()), memory);
  }
  at::Tensor view(int64_t place, int64_t bytes) override {
    if (stream_) {
      comm::finish_pending();
      stream_->synchronize();
    }
    return memory_.narrow(0, place, bytes);
  }

 private:
  Wait copy(at::Tensor to, const at::Tensor& from) {
    if (!stream_) {
      to.copy_(from);
      return [] {};
    }
    const c10::impl::VirtualGuardImpl device_of(stream_->device_type());
    c10::Event before(stream_->device_type());  // whoever used that memory
    before.record(device_of.getStream(stream_->device()));
    before.block(*stream_);
    auto after = std::make_shared<c10::Event>(stream_->device_type());
    {
      const c10::StreamGuard guard(*stream_);
      to.copy_(from, /*non_blocking=*/true);
      after->record(*stream_);
    }
    return [after, device = stream_->device()] {
      after->block(c10::impl::VirtualGuardImpl(device.type()).getStream(device));
    };
  }

  at::Tensor memory_;
  std::optional<c10::Stream> stream_;
};

}  // namespace

at::Tensor aligned(const at::Tensor& memory, int64_t bytes) {
  const auto at = reinterpret_cast<uintptr_t>(memory.data_ptr());
  const auto begin = static_cast<int64_t>(ScratchFile::aligned(at) - at);
  return memory.narrow(0, begin, bytes);
}

std::unique_ptr<OffloadStore> make_disk_store(const std::filesystem::path& folder, int64_t bytes,
                                              const std::string& what) {
  return std::make_unique<DiskStore>(folder, bytes, what);
}

std::unique_ptr<OffloadStore> make_host_store(int64_t bytes, at::Device device) {
  return std::make_unique<HostStore>(bytes, device);
}

}  // namespace convoy::parallel
