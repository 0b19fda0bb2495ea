#include "convoy/nn/dropout_device.h"

#include <ATen/ATen.h>
#include <ATen/cuda/jiterator.h>
#include <dlfcn.h>

#include <array>
#include <bit>
#include <mutex>
#include <optional>

#include "convoy/comm/device.h"

namespace convoy::nn {

namespace {

constexpr int64_t kWord = 0xFFFFFFFF;

// Compiled twice: here for the host, and by torch's compiler for GPUs. T is int. A position is
// (line_high x 2^32 + line_low) + column; a sample is high x 2^32 + low.
#define CONVOY_HOST_AND_GPU(...) \
  __VA_ARGS__                    \
  constexpr const char* kKernel = #__VA_ARGS__;

// clang-format off
CONVOY_HOST_AND_GPU(
template <typename T>
T convoy_dropout_mask(T line_low, T line_high, T column, T sample_low, T sample_high,
                      long long key, long long threshold, long long kept) {
  long long position = ((long long)line_high << 32) + (unsigned int)line_low + column;
  long long counter = position / 128 * 16 + position % 16;
  unsigned int c0 = (unsigned int)counter;
  unsigned int c1 = (unsigned int)sample_low;
  unsigned int c2 = (unsigned int)sample_high;
  unsigned int c3 = (unsigned int)(counter >> 32);
  unsigned int k0 = (unsigned int)key;
  unsigned int k1 = (unsigned int)((unsigned long long)key >> 32);
  for (int round = 0; round < 10; ++round) {
    unsigned long long a = 0xD2511F53ull * c0;
    unsigned long long b = 0xCD9E8D57ull * c2;
    c0 = (unsigned int)(b >> 32) ^ c1 ^ k0;
    c2 = (unsigned int)(a >> 32) ^ c3 ^ k1;
    c1 = (unsigned int)b;
    c3 = (unsigned int)a;
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  int slot = (int)(position % 128) / 16;
  unsigned int word = slot < 2 ? c0 : slot < 4 ? c1 : slot < 6 ? c2 : c3;
  unsigned int half = slot % 2 == 0 ? word & 0xFFFFu : word >> 16;
  return (long long)half >= threshold ? (T)kept : (T)0;
}
)
// clang-format on

int64_t bits_of(float scale) {
  return std::bit_cast<int32_t>(scale);
}

/// Positions [..., 1] at which the lines of a row begin.
at::Tensor lines_of(at::IntArrayRef inner, at::IntArrayRef bounds, at::IntArrayRef origin,
                    at::TensorOptions options) {
  const auto first = [&](size_t dim) { return origin.empty() ? 0 : origin[dim]; };
  auto lines = at::full({}, inner.empty() ? 0 : first(0), options);
  for (size_t dim = 0; dim + 1 < inner.size(); ++dim) {
    lines =
        (lines.unsqueeze(-1) + at::arange(inner[dim], options)) * bounds[dim + 1] + first(dim + 1);
  }
  return lines.unsqueeze(-1);
}

using CompileAndLaunch = decltype(&at::cuda::CompileAndLaunchKernel);

/// torch's compiler of kernels for a GPU, if its CUDA library is open.
CompileAndLaunch find_compiler() {
  constexpr const char* kName =
      "_ZN2at4cuda22CompileAndLaunchKernelERKNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEES8"
      "_iRKN3c1011SmallVectorINS_6TensorELj6EEERKNSA_INS9_6ScalarELj1EEEb";
  return reinterpret_cast<CompileAndLaunch>(::dlsym(RTLD_DEFAULT, kName));
}

at::Tensor low_word(const at::Tensor& x) {
  return x.to(at::kInt);
}
at::Tensor high_word(const at::Tensor& x) {
  return at::bitwise_right_shift(x, 32).to(at::kInt);
}

struct Compiler {
  CompileAndLaunch run = find_compiler();
  std::mutex mutex;  // torch's cache of kernels is not for several threads
  bool failed = false;
};

Compiler& compiler() {
  static Compiler compiler;
  return compiler;
}

/// Nothing where the kernel cannot be compiled.
std::optional<at::Tensor> mask_by_kernel(at::IntArrayRef sizes, at::IntArrayRef bounds,
                                         at::IntArrayRef origin, const at::Tensor& samples,
                                         const MaskStream& stream, at::Device device) {
  auto& torchs = compiler();
  const std::lock_guard lock(torchs.mutex);
  if (torchs.run == nullptr || torchs.failed) return std::nullopt;
  const auto inner = sizes.slice(1);
  const auto options = samples.options().device(device);
  const auto lines = lines_of(inner, bounds, origin, options);
  const auto columns = at::arange(inner.empty() ? 1 : inner.back(), options.dtype(at::kInt));
  std::vector<int64_t> per_row(sizes.size(), 1);
  per_row[0] = sizes[0];
  const auto rows = comm::upload(samples, device).view(per_row);
  try {
    auto out =
        torchs.run(kKernel, "convoy_dropout_mask", 1,
                   {low_word(lines), high_word(lines), columns, low_word(rows), high_word(rows)},
                   {static_cast<int64_t>(stream.key), static_cast<int64_t>(stream.threshold),
                    bits_of(stream.scale)},
                   /*return_by_ref=*/false);
    return out[0].view(at::kFloat).view(sizes);
  } catch (const c10::OutOfMemoryError&) {
    throw;
  } catch (const c10::Error&) {
    torchs.failed = true;
    return std::nullopt;
  }
}

/// One round after the other on tensors of 32-bit words in int64.
std::array<at::Tensor, 4> philox_steps(std::array<at::Tensor, 4> c, uint64_t key) {
  auto k0 = static_cast<uint32_t>(key), k1 = static_cast<uint32_t>(key >> 32);
  for (int round = 0; round < 10; ++round) {
    const auto a = c[0] * int64_t{0xD2511F53}, b = c[2] * int64_t{0xCD9E8D57};
    const auto high = [](const at::Tensor& x) {
      return at::bitwise_right_shift(x, 32).bitwise_and_(kWord);
    };
    c = {high(b).bitwise_xor(c[1]).bitwise_xor_(static_cast<int64_t>(k0)), b.bitwise_and(kWord),
         high(a).bitwise_xor(c[3]).bitwise_xor_(static_cast<int64_t>(k1)), a.bitwise_and(kWord)};
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  return c;
}

}  // namespace

int mask_element(int64_t position, int64_t sample, const MaskStream& stream) {
  const auto low = [](int64_t x) { return static_cast<int>(x); };
  const auto high = [](int64_t x) { return static_cast<int>(x >> 32); };
  return convoy_dropout_mask<int>(low(position), high(position), 0, low(sample), high(sample),
                                  static_cast<int64_t>(stream.key), stream.threshold,
                                  bits_of(stream.scale));
}

at::Tensor mask_by_steps(at::IntArrayRef sizes, at::IntArrayRef bounds, at::IntArrayRef origin,
                         const at::Tensor& samples, const MaskStream& stream, at::Device device) {
  const auto inner = sizes.slice(1);
  const auto options = samples.options().device(device);
  const int64_t line = inner.empty() ? 1 : inner.back();
  const int64_t row_size = c10::multiply_integers(inner);
  // Lines that follow each other without a gap are one.
  const bool whole = origin.empty() && (inner.size() < 2 || inner.slice(1) == bounds.slice(1));
  const auto lines = whole ? at::zeros({1, 1}, options)
                           : lines_of(inner, bounds, origin, options).reshape({-1, 1});
  const int64_t length = whole ? row_size : line;
  const int64_t num_chunks = (length + (whole ? 1 : 2) * (kDrawChunk - 1)) / kDrawChunk;
  const auto chunk = lines.floor_divide(kDrawChunk) + at::arange(num_chunks, options);
  const auto counter = (chunk.unsqueeze(-1) * kDrawLanes + at::arange(kDrawLanes, options))
                           .unsqueeze(0);  // [1, lines, chunks, lanes]
  const auto rows = comm::upload(samples, device).view({-1, 1, 1, 1});
  const auto words = philox_steps({counter.bitwise_and(kWord), rows.bitwise_and(kWord),
                                   at::bitwise_right_shift(rows, 32).bitwise_and(kWord),
                                   at::bitwise_right_shift(counter, 32).bitwise_and(kWord)},
                                  stream.key);
  std::vector<at::Tensor> halves;
  for (const auto& word : words) {
    halves.push_back(word.bitwise_and(0xFFFF));
    halves.push_back(at::bitwise_right_shift(word, 16));
  }
  auto drawn = at::stack(halves, 3).ge(static_cast<int64_t>(stream.threshold));
  drawn = drawn.view({sizes[0], lines.size(0), num_chunks * kDrawChunk});
  if (whole) {
    drawn = drawn.narrow(2, 0, length);
  } else {
    const auto place = lines.remainder(kDrawChunk) + at::arange(length, options);
    drawn = drawn.gather(2, place.unsqueeze(0).expand({sizes[0], -1, -1}));
  }
  return drawn.to(at::kFloat).mul_(stream.scale).reshape(sizes);
}

bool compiles_masks() {
  return compiler().run != nullptr && !compiler().failed;
}

at::Tensor device_mask(at::IntArrayRef sizes, at::IntArrayRef bounds, at::IntArrayRef origin,
                       const at::Tensor& samples, const MaskStream& stream, at::Device device) {
  if (auto mask = mask_by_kernel(sizes, bounds, origin, samples, stream, device)) return *mask;
  return mask_by_steps(sizes, bounds, origin, samples, stream, device);
}

}  // namespace convoy::nn
