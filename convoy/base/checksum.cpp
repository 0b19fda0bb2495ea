#include "convoy/base/checksum.h"

#include <algorithm>
#include <cstring>

#include "convoy/base/lanes.h"

namespace convoy {

namespace {

template <class Value>
uint64_t sum_of(const char* data, size_t count, uint64_t begin) {
  uint64_t sum = 0;
  for (size_t i = 0; i < count; ++i) {
    Value value;
    std::memcpy(&value, data + i * sizeof value, sizeof value);
    sum += value * (2 * (begin + i) + 1);
  }
  return sum;
}

/// Adds up values, and values times their index, in lanes that the compiler can vectorise.
CONVOY_CLONES void add_up(const char* data, uint32_t count, uint64_t& plain, uint64_t& weighted) {
  constexpr uint32_t kLanes = 16;
  uint64_t plains[kLanes]{}, products[kLanes]{};
  uint32_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    for (uint32_t lane = 0; lane < kLanes; ++lane) {
      uint32_t value;
      std::memcpy(&value, data + (uint64_t{i} + lane) * sizeof value, sizeof value);
      plains[lane] += value;
      products[lane] += uint64_t{value} * (i + lane);
    }
  }
  for (; i < count; ++i) {
    uint32_t value;
    std::memcpy(&value, data + uint64_t{i} * sizeof value, sizeof value);
    plains[0] += value;
    products[0] += uint64_t{value} * i;
  }
  for (uint32_t lane = 0; lane < kLanes; ++lane) {
    plain += plains[lane];
    weighted += products[lane];
  }
}

/// Computes sum_of() of fp32 words, which most tensors have.
uint64_t sum_of_words(const char* data, size_t count, uint64_t begin) {
  constexpr size_t kAtOnce = size_t{1} << 30;  // indices in 32 bits
  uint64_t sum = 0;
  for (size_t at = 0; at < count; at += kAtOnce) {
    uint64_t plain = 0, weighted = 0;
    add_up(data + at * sizeof(uint32_t), static_cast<uint32_t>(std::min(kAtOnce, count - at)),
           plain, weighted);
    sum += plain * (2 * (begin + at) + 1) + 2 * weighted;
  }
  return sum;
}

}  // namespace

uint64_t checksum(const void* data, size_t count, size_t width, uint64_t begin) {
  const auto* bytes = static_cast<const char*>(data);
  switch (width) {
    case 1:
      return sum_of<uint8_t>(bytes, count, begin);
    case 2:
      return sum_of<uint16_t>(bytes, count, begin);
    case 4:
      return sum_of_words(bytes, count, begin);
    default:
      return sum_of<uint64_t>(bytes, count * width / sizeof(uint64_t), begin);
  }
}

}  // namespace convoy
