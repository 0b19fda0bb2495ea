#include "convoy/base/random.h"

namespace convoy {

namespace {

std::array<uint32_t, 4> draw(uint64_t key, uint64_t counter) {
  return philox({static_cast<uint32_t>(counter), static_cast<uint32_t>(counter >> 32), 0, 0},
                {static_cast<uint32_t>(key), static_cast<uint32_t>(key >> 32)});
}

double to_unit(uint32_t high, uint32_t low) {
  uint64_t bits = (uint64_t{high} << 21) ^ (low >> 11);
  return static_cast<double>(bits & ((uint64_t{1} << 53) - 1)) * 0x1p-53;
}

}  // namespace

double uniform01(uint64_t key, uint64_t counter) {
  auto r = draw(key, counter);
  return to_unit(r[0], r[1]);
}

Permutation::Permutation(uint64_t n, uint64_t key) : n_(n), key_(key), half_bits_(1) {
  while (half_bits_ < 31 && (uint64_t{1} << (2 * half_bits_)) < n) ++half_bits_;
}

uint64_t Permutation::operator()(uint64_t i) const {
  if (n_ < 2) return 0;
  const uint64_t mask = (uint64_t{1} << half_bits_) - 1;
  do {
    uint64_t left = i >> half_bits_;
    uint64_t right = i & mask;
    for (uint64_t round = 0; round < 6; ++round) {
      uint64_t next = left ^ (hash_combine(key_ + round, right) & mask);
      left = right;
      right = next;
    }
    i = (left << half_bits_) | right;
  } while (i >= n_);
  return i;
}

}  // namespace convoy
