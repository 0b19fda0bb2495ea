#include "convoy/shm/reduce.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "convoy/shm/half.h"

namespace convoy::shm {

namespace {

#define CONVOY_INLINE inline __attribute__((always_inline))

/// How a type is stored and in which type it is added.
template <class Stored, class Added = Stored>
struct Plain {
  using Memory = Stored;
  using Value = Added;
  static CONVOY_INLINE Value load(Memory x) { return static_cast<Value>(x); }
  static CONVOY_INLINE Memory store(Value x) { return static_cast<Memory>(x); }
};

struct Bf16 {
  using Memory = uint16_t;
  using Value = float;
  static CONVOY_INLINE Value load(Memory x) {
    return std::bit_cast<float>(static_cast<uint32_t>(x) << 16);
  }
  /// The bits of x rounded to nearest, ties to even; the lower half is rubbish. NaN stays NaN
  /// without a look at it: one made of bf16 numbers has nothing in the lower half that could carry.
  static CONVOY_INLINE uint32_t round(Value x) {
    const auto bits = std::bit_cast<uint32_t>(x);
    return bits + 0x7fff + ((bits >> 16) & 1);
  }
  static CONVOY_INLINE Memory store(Value x) { return static_cast<Memory>(round(x) >> 16); }
};

struct Fp16 {
  using Memory = uint16_t;
  using Value = float;
  static CONVOY_INLINE Value load(Memory x) { return half_to_float(x); }
  static CONVOY_INLINE Memory store(Value x) { return float_to_half(x); }
};

struct Add {
  template <class T>
  static CONVOY_INLINE T apply(T a, T b) {
    return static_cast<T>(a + b);
  }
};

struct Larger {
  template <class T>
  static CONVOY_INLINE T apply(T a, T b) {
    return a > b || a != a ? a : b;
  }
};

struct Job {
  Dtype dtype;
  Op op;
  void* out;
  std::span<const void* const> inputs;
  size_t count;
};

template <class Type, class Operation>
CONVOY_INLINE void loop(const Job& job) {
  using Memory = typename Type::Memory;
  using Value = typename Type::Value;
  auto* out = static_cast<Memory*>(job.out);
  const auto* first = static_cast<const Memory*>(job.inputs[0]);
  if (job.inputs.size() == 2) {
    const auto* second = static_cast<const Memory*>(job.inputs[1]);
#pragma GCC ivdep
    for (size_t i = 0; i < job.count; ++i) {
      out[i] = Type::store(Operation::apply(Type::load(first[i]), Type::load(second[i])));
    }
    return;
  }
  constexpr size_t kBlock = 1024;
  Value sums[kBlock];
  for (size_t begin = 0; begin < job.count; begin += kBlock) {
    const size_t n = std::min(kBlock, job.count - begin);
    for (size_t i = 0; i < n; ++i) sums[i] = Type::load(first[begin + i]);
    for (size_t r = 1; r < job.inputs.size(); ++r) {
      const auto* next = static_cast<const Memory*>(job.inputs[r]) + begin;
      for (size_t i = 0; i < n; ++i) sums[i] = Operation::apply(sums[i], Type::load(next[i]));
    }
    for (size_t i = 0; i < n; ++i) out[begin + i] = Type::store(sums[i]);
  }
}

/// Two numbers of two inputs at a time, in one word: no shuffling between widths.
template <class Operation>
CONVOY_INLINE void loop_bf16_pairs(const Job& job) {
  auto* out = static_cast<char*>(job.out);
  const auto* first = static_cast<const char*>(job.inputs[0]);
  const auto* second = static_cast<const char*>(job.inputs[1]);
  const size_t pairs = job.count / 2;
#pragma GCC ivdep
  for (size_t i = 0; i < pairs; ++i) {
    uint32_t a, b;
    std::memcpy(&a, first + i * 4, 4);
    std::memcpy(&b, second + i * 4, 4);
    const float low =
        Operation::apply(std::bit_cast<float>(a << 16), std::bit_cast<float>(b << 16));
    const float high = Operation::apply(std::bit_cast<float>(a & 0xffff0000),
                                        std::bit_cast<float>(b & 0xffff0000));
    const uint32_t both = (Bf16::round(low) >> 16) | (Bf16::round(high) & 0xffff0000);
    std::memcpy(out + i * 4, &both, 4);
  }
  if (job.count % 2 == 0) return;
  const auto at = [&](const void* memory) {
    return Bf16::load(static_cast<const uint16_t*>(memory)[job.count - 1]);
  };
  static_cast<uint16_t*>(job.out)[job.count - 1] =
      Bf16::store(Operation::apply(at(job.inputs[0]), at(job.inputs[1])));
}

template <class Type>
CONVOY_INLINE void choose_op(const Job& job) {
  job.op == Op::Sum ? loop<Type, Add>(job) : loop<Type, Larger>(job);
}

CONVOY_INLINE void choose(const Job& job) {
  switch (job.dtype) {
    case Dtype::F32:
      return choose_op<Plain<float>>(job);
    case Dtype::F64:
      return choose_op<Plain<double>>(job);
    case Dtype::F16:
      return choose_op<Fp16>(job);
    case Dtype::BF16:
      if (job.inputs.size() > 2) return choose_op<Bf16>(job);
      return job.op == Op::Sum ? loop_bf16_pairs<Add>(job) : loop_bf16_pairs<Larger>(job);
    // Sums wrap around: unsigned, where that is defined. A maximum needs the sign.
    case Dtype::I8:
      return job.op == Op::Sum ? loop<Plain<uint8_t>, Add>(job) : loop<Plain<int8_t>, Larger>(job);
    case Dtype::U8:
      return choose_op<Plain<uint8_t>>(job);
    case Dtype::I32:
      return job.op == Op::Sum ? loop<Plain<uint32_t>, Add>(job)
                               : loop<Plain<int32_t>, Larger>(job);
    case Dtype::I64:
      return job.op == Op::Sum ? loop<Plain<uint64_t>, Add>(job)
                               : loop<Plain<int64_t>, Larger>(job);
  }
}

#if defined(__x86_64__)
__attribute__((target("avx512f,avx512bw,avx512vl,avx512dq,prefer-vector-width=512"),
               optimize("O3"))) void reduce_avx512(const Job& job) {
  choose(job);
}
__attribute__((target("avx2"), optimize("O3"))) void reduce_avx2(const Job& job) {
  choose(job);
}
#endif

__attribute__((optimize("O3"))) void reduce_any(const Job& job) {
  choose(job);
}

}  // namespace

size_t size_of(Dtype dtype) {
  switch (dtype) {
    case Dtype::F64:
    case Dtype::I64:
      return 8;
    case Dtype::F32:
    case Dtype::I32:
      return 4;
    case Dtype::F16:
    case Dtype::BF16:
      return 2;
    case Dtype::I8:
    case Dtype::U8:
      break;
  }
  return 1;
}

const char* name_of(Dtype dtype) {
  constexpr const char* kNames[] = {"fp32", "fp64",  "fp16",  "bf16",
                                    "int8", "uint8", "int32", "int64"};
  return kNames[static_cast<size_t>(dtype)];
}

void reduce(Dtype dtype, Op op, void* out, std::span<const void* const> inputs, size_t count) {
  if (count == 0) return;
  if (inputs.size() == 1) {
    if (out != inputs[0]) std::memmove(out, inputs[0], count * size_of(dtype));
    return;
  }
  const Job job{dtype, op, out, inputs, count};
#if defined(__x86_64__)
  static const bool avx512 =
      __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
  static const bool avx2 = __builtin_cpu_supports("avx2");
  if (avx512) return reduce_avx512(job);
  if (avx2) return reduce_avx2(job);
#endif
  reduce_any(job);
}

}  // namespace convoy::shm
