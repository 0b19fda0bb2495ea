#include "convoy/nn/attention/rotary_device.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <bit>

#include "convoy/nn/device_kernel.h"

// Shapes: B rows, H heads, T positions, E width of a head.
namespace convoy::nn {

namespace {

// `which`: 0 for the low half of a head, 1 for the high one. Torch promotes bf16 to the tables'
// fp32, also what comes out; so bf16 goes `packed`, and two numbers of a table in 64 bits.
// clang-format off
CONVOY_HOST_AND_GPU(kRotaryText,
float convoy_turned(float low, float high, float cos, float sin, bool upper) {
  return upper ? high * cos + low * sin : low * cos - high * sin;
}
template <typename T>
T convoy_turn(T low, T high, T cos, T sin, T which, double sign) {
  return convoy_turned(low, high, cos, (float)sign * sin, which != 0);
}
inline float convoy_half(unsigned long long two, int i) {
  return convoy_number((unsigned int)(two >> (32 * i)));
}
template <typename T>
T convoy_turn_packed(T low, T high, T cos_0, T cos_1, T sin_0, T sin_1, T which, double sign) {
  unsigned long long out = 0;
  for (int i = 0; i < 4; ++i) {
    float cos = convoy_half((unsigned long long)(i < 2 ? cos_0 : cos_1), i % 2);
    float sin = convoy_half((unsigned long long)(i < 2 ? sin_0 : sin_1), i % 2);
    float turned = convoy_turned(convoy_part((unsigned long long)low, i),
                                 convoy_part((unsigned long long)high, i), cos, (float)sign * sin,
                                 which != 0);
    out |= convoy_packed(turned, i);
  }
  return (T)out;
}
)
// clang-format on

/// Views a table [T, E / 2] or [B, 1, T, E / 2] as [T, 1, 1, E / 2] or [B, T, 1, 1, E / 2].
at::Tensor beside_heads(const at::Tensor& table) {
  return table.dim() == 2 ? table.unsqueeze(1).unsqueeze(1) : table.transpose(1, 2).unsqueeze(-2);
}

}  // namespace

std::optional<at::Tensor> turn_on_device(const at::Tensor& x, const at::Tensor& cos,
                                         const at::Tensor& sin, float sign) {
  static DeviceKernel turn("convoy_turn", kRotaryText),
      turn_packed("convoy_turn_packed", kRotaryText);
  const bool halves = x.scalar_type() == at::kBFloat16;
  if (!halves && x.scalar_type() != at::kFloat) return std::nullopt;
  const auto words = halves ? packed(x) : std::optional(x);
  if (!words || words->size(-1) % 2 != 0) return std::nullopt;
  // Heads stand behind positions in memory, as products leave them; both halves in one dimension.
  const auto apart = words->transpose(1, 2).unflatten(3, {2, -1});
  const auto low = apart.narrow(3, 0, 1), high = apart.narrow(3, 1, 1);
  const std::vector<c10::Scalar> scalars{static_cast<double>(sign)};
  const auto which = halves_of(x, halves ? at::kLong : at::kFloat);
  std::optional<at::Tensor> out;
  if (halves) {
    const auto cosines = beside_heads(cos).view(at::kLong).unflatten(-1, {-1, 2});
    const auto sines = beside_heads(sin).view(at::kLong).unflatten(-1, {-1, 2});
    out = turn_packed.run({low, high, cosines.select(-1, 0), cosines.select(-1, 1),
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

int64_t turned_packed(int64_t low, int64_t high, const float* cos, const float* sin, bool upper,
                      float sign) {
  const auto pair = [](const float* x) {
    const uint64_t second = convoy_bits(x[1]);
    return static_cast<int64_t>(second << 32 | convoy_bits(x[0]));
  };
  return convoy_turn_packed<int64_t>(low, high, pair(cos), pair(cos + 2), pair(sin), pair(sin + 2),
                                     upper ? 1 : 0, sign);
}

}  // namespace convoy::nn
