#include "convoy/nn/attention/rotary_device.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <bit>

#include "convoy/nn/device_kernel.h"

// Shapes: B rows, H heads, T positions, E width of a head.
namespace convoy::nn {

namespace {

// `which`: 0 for the low half of a head, 1 for the high one. Torch promotes bf16 to the tables'
// fp32, also what comes out; so bf16 goes in pairs of neighbours that lie in 32 bits, as T = int.
// clang-format off
CONVOY_HOST_AND_GPU(kRotaryText,
float convoy_turned(float low, float high, float cos, float sin, bool upper) {
  return upper ? high * cos + low * sin : low * cos - high * sin;
}
template <typename T>
T convoy_turn(T low, T high, T cos, T sin, T which, double sign) {
  return convoy_turned(low, high, cos, (float)sign * sin, which != 0);
}
template <typename T>
T convoy_turn_pair(T low, T high, T cos_0, T cos_1, T sin_0, T sin_1, T which, double sign) {
  unsigned int a = (unsigned int)low;
  unsigned int b = (unsigned int)high;
  float first = convoy_turned(convoy_number(a << 16), convoy_number(b << 16),
                              convoy_number((unsigned int)cos_0),
                              (float)sign * convoy_number((unsigned int)sin_0), which != 0);
  float second = convoy_turned(convoy_number(a & 0xffff0000u), convoy_number(b & 0xffff0000u),
                               convoy_number((unsigned int)cos_1),
                               (float)sign * convoy_number((unsigned int)sin_1), which != 0);
  return (T)(convoy_rounded(second) << 16 | convoy_rounded(first));
}
)
// clang-format on

/// [T, E / 2] or [B, 1, T, E / 2] as [T, 1, 1, E / 2] or [B, T, 1, 1, E / 2].
at::Tensor beside_heads(const at::Tensor& table) {
  return table.dim() == 2 ? table.unsqueeze(1).unsqueeze(1) : table.transpose(1, 2).unsqueeze(-2);
}

/// Whether each second number of x begins 32 bits.
bool lies_in_pairs(const at::Tensor& x) {
  const auto strides = x.strides().slice(0, static_cast<size_t>(x.dim() - 1));
  return x.stride(-1) == 1 && x.size(-1) % 4 == 0 && x.storage_offset() % 2 == 0 &&
         std::all_of(strides.begin(), strides.end(), [](int64_t s) { return s % 2 == 0; });
}

}  // namespace

std::optional<at::Tensor> turn_on_device(const at::Tensor& x, const at::Tensor& cos,
                                         const at::Tensor& sin, float sign) {
  static DeviceKernel turn("convoy_turn", kRotaryText), turn_pair("convoy_turn_pair", kRotaryText);
  const bool halves = x.scalar_type() == at::kBFloat16;
  if (!halves && x.scalar_type() != at::kFloat) return std::nullopt;
  if (halves && !lies_in_pairs(x)) return std::nullopt;
  // Heads stand behind positions in memory, as products leave them; both halves in one dimension.
  const auto apart = (halves ? x.view(at::kInt) : x).transpose(1, 2).unflatten(3, {2, -1});
  const auto low = apart.narrow(3, 0, 1), high = apart.narrow(3, 1, 1);
  const std::vector<c10::Scalar> scalars{static_cast<double>(sign)};
  const auto which = halves_of(x, halves ? at::kInt : at::kFloat);
  std::optional<at::Tensor> out;
  if (halves) {
    const auto cosines = beside_heads(cos).view(at::kInt).unflatten(-1, {-1, 2});
    const auto sines = beside_heads(sin).view(at::kInt).unflatten(-1, {-1, 2});
    out = turn_pair.run({low, high, cosines.select(-1, 0), cosines.select(-1, 1),
                         sines.select(-1, 0), sines.select(-1, 1), which},
                        scalars);
    if (out) out = out->view(at::kBFloat16);
  } else {
    out = turn.run({low, high, beside_heads(cos), beside_heads(sin), which}, scalars);
  }
  if (!out) return out;
  return out->flatten(3).transpose(1, 2);
}

float turned_element(float low, float high, float cos, float sin, bool upper, float sign) {
  return convoy_turn<float>(low, high, cos, sin, upper ? 1.0f : 0.0f, sign);
}

int turned_pair(int low, int high, const float* cos, const float* sin, bool upper, float sign) {
  const auto bits = [](float x) { return std::bit_cast<int>(x); };
  return convoy_turn_pair<int>(low, high, bits(cos[0]), bits(cos[1]), bits(sin[0]), bits(sin[1]),
                               upper ? 1 : 0, sign);
}

}  // namespace convoy::nn
