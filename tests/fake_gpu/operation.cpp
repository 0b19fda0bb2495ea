#include "tests/fake_gpu/operation.h"

#include <ATen/ATen.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <algorithm>
#include <vector>

#include "tests/fake_gpu/allocator.h"
#include "tests/fake_gpu/counters.h"
#include "tests/fake_gpu/device_lock.h"
#include "tests/fake_gpu/memory.h"
#include "tests/fake_gpu/options.h"
#include "tests/fake_gpu/report.h"

namespace convoy::fake_gpu {

namespace {

/// Tensors with more rows than this are taken as a whole, with the gaps between their rows.
constexpr int64_t kMostRows = 64;

thread_local uint64_t launches_here = 0;

struct Dim {
  int64_t stride, size;
};

/// The stretches of memory that a tensor's elements take.
std::vector<Range> ranges_of(const at::Tensor& tensor) {
  const auto span = span_of(tensor);
  if (span.empty() || tensor.is_non_overlapping_and_dense()) return {span};
  std::vector<Dim> dims;
  for (int64_t d = 0; d < tensor.dim(); ++d) {
    if (tensor.size(d) > 1 && tensor.stride(d) > 0)
      dims.push_back({tensor.stride(d), tensor.size(d)});
  }
  std::sort(dims.begin(), dims.end(), [](Dim a, Dim b) { return a.stride < b.stride; });
  int64_t row = 1;
  size_t outer = 0;
  for (; outer < dims.size() && dims[outer].stride == row; ++outer) row *= dims[outer].size;
  int64_t rows = 1;
  for (size_t d = outer; d < dims.size(); ++d) rows *= dims[d].size;
  if (rows > kMostRows) return {span};
  const auto width = static_cast<uintptr_t>(tensor.element_size());
  std::vector<Range> out;
  for (int64_t r = 0; r < rows; ++r) {
    int64_t place = 0, rest = r;
    for (size_t d = outer; d < dims.size(); ++d) {
      place += rest % dims[d].size * dims[d].stride;
      rest /= dims[d].size;
    }
    const uintptr_t begin = span.begin + static_cast<uintptr_t>(place) * width;
    out.push_back({begin, begin + static_cast<uintptr_t>(row) * width});
  }
  return out;
}

std::string describe(const Conflict& conflict, const Access& access, bool writes,
                     const Allocation* memory) {
  const bool reused = memory != nullptr && conflict.before.allocation != 0 &&
                      conflict.before.allocation != access.allocation;
  std::string text = "nothing orders " + to_text(*access.note) + " on " +
                     name_of_line(access.stamp.line) + " after " + to_text(*conflict.before.note) +
                     " on " + name_of_line(conflict.before.stamp.line) + ": it " +
                     (writes ? "writes" : "reads") + " what that " +
                     (conflict.before_wrote ? "wrote" : "reads") + ", " +
                     std::to_string(conflict.range.end - conflict.range.begin) + " bytes";
  if (memory == nullptr) return text + " of pinned memory";
  text += " at " +
          std::to_string(conflict.range.begin - reinterpret_cast<uintptr_t>(memory->begin)) +
          " of an allocation of " + std::to_string(memory->bytes) + " bytes made for " +
          to_text(*memory->made);
  if (reused) text += "; the memory was given away again before that was done";
  return text;
}

}  // namespace

c10::Stream current_stream(c10::DeviceIndex device) {
  return c10::impl::VirtualGuardImpl(c10::kCUDA).getStream({c10::kCUDA, device});
}

Range span_of(const at::Tensor& tensor) {
  if (tensor.numel() == 0) return {};
  const auto width = static_cast<uintptr_t>(tensor.element_size());
  int64_t last = 0;
  for (int64_t d = 0; d < tensor.dim(); ++d) last += (tensor.size(d) - 1) * tensor.stride(d);
  const auto begin = reinterpret_cast<uintptr_t>(tensor.storage().data()) +
                     static_cast<uintptr_t>(tensor.storage_offset()) * width;
  return {begin, begin + (static_cast<uintptr_t>(last) + 1) * width};
}

uint64_t num_launches_here() {
  return launches_here;
}

Operation::Operation(std::string_view name, c10::Stream stream)
    : stream_(stream), access_{launch(stream), note(name), 0} {
  if (options().pretends == "no_kernel" && name.starts_with("aten::")) {
    constexpr int32_t kNoKernelImageForDevice = 209;
    throw c10::AcceleratorError(
        {__func__, __FILE__, __LINE__}, kNoKernelImageForDevice,
        "CUDA error: no kernel image is available for execution on the device\n"
        "Search for `cudaErrorNoKernelImageForDevice' in "
        "https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__TYPES.html for more "
        "information.\nCUDA kernel errors might be asynchronously reported at some other API "
        "call, so the stacktrace below might be incorrect.\nFor debugging consider passing "
        "CUDA_LAUNCH_BLOCKING=1\nCompile with `TORCH_USE_CUDA_DSA` to enable device-side "
        "assertions.\n");
  }
  ++launches_here;
  Counts one;
  one.launches = 1;
  one.beside = stream.id() == 0 ? 0 : 1;
  count(one);
}

void Operation::uses(const at::Tensor& tensor, bool writes, int64_t elements) {
  if (!tensor.defined() || !tensor.is_cuda() || tensor.numel() == 0) return;
  const Locked lock;
  if (tensor.storage().data() == nullptr) {
    return misused(to_text(*access_.note) + " uses a tensor whose memory was taken away");
  }
  Counts used;
  for (const auto& range : ranges_of(tensor)) {
    used.operand_bytes += static_cast<int64_t>(range.end - range.begin);
    uses(range, writes);
  }
  // Not the gaps between rows, either.
  used.operand_bytes =
      std::min(used.operand_bytes,
               std::min(elements, tensor.numel()) * static_cast<int64_t>(tensor.element_size()));
  count(used);
}

void Operation::uses(Range range, bool writes) {
  if (range.empty()) return;
  const Locked lock;
  const auto* begin = reinterpret_cast<const void*>(range.begin);
  const auto device = device_of(begin);
  std::optional<Allocation> memory;
  if (device >= 0) {
    memory = find_allocation(begin);
    if (!memory || !memory->live ||
        range.end > reinterpret_cast<uintptr_t>(memory->begin) + memory->bytes) {
      misused(to_text(*access_.note) +
              " uses memory that is not allocated: CUDA error: an illegal "
              "memory access was encountered");
    }
  }
  access_.allocation = memory ? memory->number : 0;
  if (memory && writes) name_allocation(memory->begin, access_.note);
  if (const auto found = touch(range, writes, access_)) {
    misused(describe(*found, access_, writes, memory ? &*memory : nullptr));
  }
}

at::Tensor on_host(const at::Tensor& tensor) {
  if (!tensor.defined() || !tensor.is_cuda()) return tensor;
  return at::for_blob(real(tensor.storage().data()), tensor.sizes())
      .strides(tensor.strides())
      .storage_offset(tensor.storage_offset())
      .options(tensor.options().device(at::kCPU))
      .make_tensor();
}

}  // namespace convoy::fake_gpu
