#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace convoy {

/// Philox4x32-10, the counter-based generator of Salmon et al., "Parallel random numbers: as easy
/// as 1, 2, 3" (SC'11): a pure function, so any rank can draw any element of any stream.
constexpr std::array<uint32_t, 4> philox(std::array<uint32_t, 4> counter,
                                         std::array<uint32_t, 2> key) {
  for (int round = 0; round < 10; ++round) {
    uint64_t a = uint64_t{0xD2511F53} * counter[0];
    uint64_t b = uint64_t{0xCD9E8D57} * counter[2];
    counter = {static_cast<uint32_t>(b >> 32) ^ counter[1] ^ key[0], static_cast<uint32_t>(b),
               static_cast<uint32_t>(a >> 32) ^ counter[3] ^ key[1], static_cast<uint32_t>(a)};
    key = {key[0] + 0x9E3779B9u, key[1] + 0xBB67AE85u};
  }
  return counter;
}

/// Computes philox() for kLanes counters side by side, laid out so that the compiler can vectorise
/// it.
template <int kLanes>
[[gnu::always_inline]] inline void philox_lanes(uint32_t (&words)[4][kLanes], uint32_t k0,
                                                uint32_t k1) {
  auto& [c0, c1, c2, c3] = words;
  for (int round = 0; round < 10; ++round) {
    for (int i = 0; i < kLanes; ++i) {
      uint64_t a = uint64_t{0xD2511F53} * c0[i];
      uint64_t b = uint64_t{0xCD9E8D57} * c2[i];
      uint32_t n0 = static_cast<uint32_t>(b >> 32) ^ c1[i] ^ k0;
      uint32_t n2 = static_cast<uint32_t>(a >> 32) ^ c3[i] ^ k1;
      c1[i] = static_cast<uint32_t>(b);
      c3[i] = static_cast<uint32_t>(a);
      c0[i] = n0;
      c2[i] = n2;
    }
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
}

/// Finalizer of SplitMix64: spreads every input bit over all output bits.
constexpr uint64_t mix64(uint64_t x) {
  x += 0x9E3779B97F4A7C15ull;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ull;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBull;
  return x ^ (x >> 31);
}

constexpr uint64_t hash_combine(uint64_t a, uint64_t b) {
  return mix64(a ^ mix64(b));
}

/// A hash of text that is the same on every machine and in every run.
constexpr uint64_t hash_text(std::string_view text) {
  uint64_t hash = 0xCBF29CE484222325ull;
  for (char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001B3ull;
  return mix64(hash);
}

/// Element `counter` of stream `key`, uniform in [0, 1).
double uniform01(uint64_t key, uint64_t counter);

/// A pseudo-random permutation of [0, n) that is evaluated at one point at a time: a Feistel
/// network over the next power of four, walked until it falls inside.
class Permutation {
 public:
  Permutation(uint64_t n, uint64_t key);
  uint64_t operator()(uint64_t i) const;

 private:
  uint64_t n_;
  uint64_t key_;
  int half_bits_;
};

}  // namespace convoy
