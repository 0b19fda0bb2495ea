#include "convoy/nn/layers/dropout_device.h"

#include <ATen/ATen.h>

#include <array>
#include <bit>
#include <optional>

#include "convoy/comm/device.h"
#include "convoy/nn/device_kernel.h"

namespace convoy::nn {

namespace {

constexpr int64_t kWord = 0xFFFFFFFF;

// T is int, but of what is packed int64: eight bytes tell what is dropped of the positions that
// share a counter, 16 apart. A position is (line_high x 2^32 + line_low) + column; a sample is high
// x 2^32 + low.
// clang-format off
CONVOY_HOST_AND_GPU(kMaskText,
inline void convoy_philox(long long counter, unsigned int low, unsigned int high, long long key,
                          unsigned int* words) {
  unsigned int c0 = (unsigned int)counter;
  unsigned int c1 = low;
  unsigned int c2 = high;
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
  words[0] = c0;
  words[1] = c1;
  words[2] = c2;
  words[3] = c3;
}
template <typename T>
T convoy_drops_packed(T line, T counter, T sample, long long key, long long threshold) {
  unsigned int words[4];
  convoy_philox((long long)line / 8 + (long long)counter, (unsigned int)(long long)sample,
                (unsigned int)((long long)sample >> 32), key, words);
  unsigned long long out = 0;
  for (int i = 0; i < 8; ++i) {
    unsigned int half = i % 2 == 0 ? words[i / 2] & 0xFFFFu : words[i / 2] >> 16;
    if ((long long)half < threshold) out |= 1ull << (8 * i);
  }
  return (T)out;
}
template <typename T>
T convoy_dropout_mask(T line_low, T line_high, T column, T sample_low, T sample_high,
                      long long key, long long threshold, long long kept) {
  long long position = ((long long)line_high << 32) + (unsigned int)line_low + column;
  long long counter = position / 128 * 16 + position % 16;
  unsigned int words[4];
  convoy_philox(counter, (unsigned int)sample_low, (unsigned int)sample_high, key, words);
  int slot = (int)(position % 128) / 16;
  unsigned int word = slot < 2 ? words[0] : slot < 4 ? words[1] : slot < 6 ? words[2] : words[3];
  unsigned int half = slot % 2 == 0 ? word & 0xFFFFu : word >> 16;
  return (long long)half >= threshold ? (T)kept : (T)0;
}
template <typename T>
T convoy_add_dropped(T line_low, T line_high, T column, T sample_low, T sample_high, T x, T added,
                     long long key, long long threshold, long long kept, long long narrow) {
  T mask = convoy_dropout_mask<T>(line_low, line_high, column, sample_low, sample_high, key,
                                  threshold, kept);
  unsigned int bits = (unsigned int)added;
  float value = convoy_number(narrow != 0 ? bits << 16 : bits) * convoy_number((unsigned int)mask);
  if (narrow != 0) value = convoy_number(convoy_rounded(value) << 16);
  return (T)convoy_bits(convoy_number((unsigned int)x) + value);
}
template <typename T>
T convoy_dropped(T line_low, T line_high, T column, T sample_low, T sample_high, T x,
                 long long key, long long threshold, long long kept) {
  T mask = convoy_dropout_mask<T>(line_low, line_high, column, sample_low, sample_high, key,
                                  threshold, kept);
  return (T)convoy_bits(convoy_number((unsigned int)x) * convoy_number((unsigned int)mask));
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

DeviceKernel& mask_kernel() {
  static DeviceKernel kernel("convoy_dropout_mask", kMaskText);
  return kernel;
}

/// Low and high words [2, ...] int32 of x int64.
at::Tensor words_of(const at::Tensor& x) {
  return at::stack({x, at::bitwise_right_shift(x, 32)}).to(at::kInt);
}

/// Cache key of a small tensor that depends on `parts`.
std::vector<int64_t> key_of(Kept kind, std::initializer_list<at::IntArrayRef> parts) {
  std::vector<int64_t> key{static_cast<int64_t>(kind)};
  for (const auto& part : parts) {
    key.push_back(std::ssize(part));
    key.insert(key.end(), part.begin(), part.end());
  }
  return key;
}

at::IntArrayRef numbers_of(const at::Tensor& samples) {
  return {samples.const_data_ptr<int64_t>(), static_cast<size_t>(samples.numel())};
}

/// Returns the shape [B, 1, ...] for `sizes` [B, ...].
std::vector<int64_t> beside_rows(at::IntArrayRef sizes) {
  std::vector<int64_t> out(sizes.size(), 1);
  out[0] = sizes[0];
  return out;
}

/// Returns the places of the elements of a mask of `sizes`, as kernels read it: the lines'
/// beginnings in two words, columns, and the rows' samples in two words.
std::vector<at::Tensor> places_of(at::IntArrayRef sizes, at::IntArrayRef bounds,
                                  at::IntArrayRef origin, const at::Tensor& samples,
                                  at::Device device) {
  const auto inner = sizes.slice(1);
  const auto lines = kept_on(device, key_of(Kept::Lines, {inner, bounds, origin}), [&] {
    return words_of(lines_of(inner, bounds, origin, samples.options()));
  });
  const int64_t length = inner.empty() ? 1 : inner.back();
  const auto columns = kept_on(device, {static_cast<int64_t>(Kept::Columns), length},
                               [&] { return at::arange(length, at::kInt); });
  const auto words = kept_on(device, key_of(Kept::Samples, {numbers_of(samples)}),
                             [&] { return words_of(samples); });
  const auto per_row = beside_rows(sizes);
  return {lines[0], lines[1], columns, words[0].view(per_row), words[1].view(per_row)};
}

std::vector<c10::Scalar> scalars_of(const MaskStream& stream) {
  return {static_cast<int64_t>(stream.key), static_cast<int64_t>(stream.threshold),
          bits_of(stream.scale)};
}

/// Makes a mask with the kernel. Returns nothing where the kernel cannot be compiled.
std::optional<at::Tensor> mask_by_kernel(at::IntArrayRef sizes, at::IntArrayRef bounds,
                                         at::IntArrayRef origin, const at::Tensor& samples,
                                         const MaskStream& stream, at::Device device) {
  if (!mask_kernel().compiles()) return std::nullopt;
  const auto bits =
      mask_kernel().run(places_of(sizes, bounds, origin, samples, device), scalars_of(stream));
  if (!bits) return std::nullopt;
  return bits->view(at::kFloat).view(sizes);
}

/// Runs Philox, one round after the other, on tensors of 32-bit words in int64.
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

std::optional<at::Tensor> drops_on_device(at::IntArrayRef sizes, at::IntArrayRef bounds,
                                          at::IntArrayRef origin, const at::Tensor& samples,
                                          const MaskStream& stream, at::Device device) {
  static DeviceKernel kernel("convoy_drops_packed", kMaskText);
  const auto inner = sizes.slice(1);
  const int64_t length = inner.empty() ? 1 : inner.back();
  const bool whole = length % kDrawChunk == 0 && inner.size() > 1 &&
                     bounds.back() % kDrawChunk == 0 &&
                     (origin.empty() || origin.back() % kDrawChunk == 0);
  if (!whole || !kernel.compiles()) return std::nullopt;
  const auto lines = kept_on(device, key_of(Kept::WholeLines, {inner, bounds, origin}),
                             [&] { return lines_of(inner, bounds, origin, samples.options()); });
  const int64_t counters = length / 8;
  const auto counter = kept_on(device, {static_cast<int64_t>(Kept::Counters), counters},
                               [&] { return at::arange(counters, at::kLong); });
  const auto rows =
      kept_on(device, key_of(Kept::WholeSamples, {numbers_of(samples)}), [&] { return samples; });
  const auto words =
      kernel.run({lines, counter, rows.view(beside_rows(sizes))},
                 {static_cast<int64_t>(stream.key), static_cast<int64_t>(stream.threshold)});
  if (!words) return std::nullopt;
  auto chunks = sizes.vec();
  chunks.back() = length / kDrawChunk;
  chunks.insert(chunks.end(), {kDrawLanes, kDrawChunk / kDrawLanes});
  return words->contiguous().view(at::kBool).view(chunks).transpose(-1, -2);
}

std::optional<at::Tensor> add_dropped_on_device(const at::Tensor& x, const at::Tensor& added,
                                                const at::Tensor& samples,
                                                const MaskStream& stream) {
  static DeviceKernel kernel("convoy_add_dropped", kMaskText);
  if (!kernel.compiles()) return std::nullopt;
  const bool narrow = added.scalar_type() == at::kBFloat16;
  auto tensors = places_of(x.sizes(), x.sizes().slice(1), {}, samples, x.device());
  tensors.push_back(x.view(at::kInt));
  tensors.push_back(added.view(narrow ? at::kShort : at::kInt));
  auto scalars = scalars_of(stream);
  scalars.emplace_back(static_cast<int64_t>(narrow));
  const auto bits = kernel.run(tensors, scalars);
  return bits ? std::optional(bits->view(at::kFloat)) : std::nullopt;
}

std::optional<at::Tensor> dropped_on_device(const at::Tensor& grad, const at::Tensor& samples,
                                            const MaskStream& stream) {
  static DeviceKernel kernel("convoy_dropped", kMaskText);
  if (!kernel.compiles()) return std::nullopt;
  auto tensors = places_of(grad.sizes(), grad.sizes().slice(1), {}, samples, grad.device());
  tensors.push_back(grad.view(at::kInt));
  const auto bits = kernel.run(tensors, scalars_of(stream));
  return bits ? std::optional(bits->view(at::kFloat)) : std::nullopt;
}

int mask_element(int64_t position, int64_t sample, const MaskStream& stream) {
  const auto low = [](int64_t x) { return static_cast<int>(x); };
  const auto high = [](int64_t x) { return static_cast<int>(x >> 32); };
  return convoy_dropout_mask<int>(low(position), high(position), 0, low(sample), high(sample),
                                  static_cast<int64_t>(stream.key), stream.threshold,
                                  bits_of(stream.scale));
}

int64_t drops_element(int64_t line, int64_t counter, int64_t sample, const MaskStream& stream) {
  return convoy_drops_packed<int64_t>(line, counter, sample, static_cast<int64_t>(stream.key),
                                      stream.threshold);
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
  return mask_kernel().compiles();
}

at::Tensor device_mask(at::IntArrayRef sizes, at::IntArrayRef bounds, at::IntArrayRef origin,
                       const at::Tensor& samples, const MaskStream& stream, at::Device device) {
  if (auto mask = mask_by_kernel(sizes, bounds, origin, samples, stream, device)) return *mask;
  return mask_by_steps(sizes, bounds, origin, samples, stream, device);
}

}  // namespace convoy::nn
