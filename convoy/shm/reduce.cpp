#include "convoy/shm/reduce.h"

#include <array>
#include <cstring>

// All is inlined into functions that know their machine: no vector is passed to anybody.
#pragma GCC diagnostic ignored "-Wpsabi"
#include "convoy/shm/half.h"

namespace convoy::shm {

namespace {

#define CONVOY_INLINE inline __attribute__((always_inline))

/// Bytes that a loop reads at a time; the compiler splits them to the machine's vector width.
constexpr size_t kStep = 64;

template <class T>
struct Vector {
  typedef T Type __attribute__((vector_size(kStep)));
};
using Words = Vector<uint32_t>::Type;
using Floats = Vector<float>::Type;

/// Element type whose numbers are added as they are stored.
template <class T>
struct Plain {
  using Stored = typename Vector<T>::Type;
  using Value = Stored;
  static CONVOY_INLINE void load(const Stored& x, Value& value) { value = x; }
  static CONVOY_INLINE void store(const Value& value, Stored& x) { x = value; }
};

/// Element type of 16 bits, added as fp32. Two numbers share a word, so nothing moves between
/// lanes.
struct TwoFloats {
  Floats low, high;
};

struct Bf16 {
  using Stored = Words;
  using Value = TwoFloats;
  static CONVOY_INLINE void load(const Words& x, Value& value) {
    value.low = __builtin_bit_cast(Floats, x << 16);
    value.high = __builtin_bit_cast(Floats, x & 0xffff0000);
  }
  static CONVOY_INLINE void store(const Value& value, Words& x) {
    Words low = __builtin_bit_cast(Words, value.low), high = __builtin_bit_cast(Words, value.high);
    round(low);
    round(high);
    x = (low >> 16) | (high & 0xffff0000);
  }
  /// Rounds fp32 to bf16, to nearest with ties to even; the lower half holds garbage. NaN needs no
  /// check: one made of bf16 numbers has zeros in the lower half, so nothing carries.
  static CONVOY_INLINE void round(Words& bits) { bits += 0x7fff + ((bits >> 16) & 1); }
};

struct Fp16 {
  using Stored = Words;
  using Value = TwoFloats;
  static CONVOY_INLINE void load(const Words& x, Value& value) {
    value.low = half_to_float<Floats>(x & 0xffff);
    value.high = half_to_float<Floats>(x >> 16);
  }
  static CONVOY_INLINE void store(const Value& value, Words& x) {
    x = float_to_half<Words>(value.low) | (float_to_half<Words>(value.high) << 16);
  }
};

struct Add {
  template <class V>
  static CONVOY_INLINE void apply(V& a, const V& b) {
    a += b;
  }
  static CONVOY_INLINE void apply(TwoFloats& a, const TwoFloats& b) {
    a.low += b.low;
    a.high += b.high;
  }
};

struct Larger {
  template <class V>
  static CONVOY_INLINE void apply(V& a, const V& b) {
    a = (a > b) | (a != a) ? a : b;
  }
  static CONVOY_INLINE void apply(TwoFloats& a, const TwoFloats& b) {
    apply(a.low, b.low);
    apply(a.high, b.high);
  }
};

struct Job {
  Dtype dtype;
  Reduction op;
  void* out;
  std::span<const void* const> inputs;
  size_t count;
};

/// Reduces one vector, or its first `bytes`, at `at` of each input.
template <class Type, class Operation, class Inputs>
CONVOY_INLINE void step(char* out, const Inputs& inputs, size_t at, size_t bytes) {
  typename Type::Stored stored{};
  typename Type::Value sum, next;
  std::memcpy(&stored, static_cast<const char*>(inputs[0]) + at, bytes);
  Type::load(stored, sum);
  for (size_t r = 1; r < inputs.size(); ++r) {
    std::memcpy(&stored, static_cast<const char*>(inputs[r]) + at, bytes);
    Type::load(stored, next);
    Operation::apply(sum, next);
  }
  Type::store(sum, stored);
  std::memcpy(out + at, &stored, bytes);
}

template <class Type, class Operation, class Inputs>
CONVOY_INLINE void steps(const Job& job, const Inputs& inputs) {
  auto* out = static_cast<char*>(job.out);
  const size_t bytes = job.count * size_of(job.dtype);
  const size_t whole = bytes / kStep * kStep;
#pragma GCC unroll 4
  for (size_t at = 0; at < whole; at += kStep) step<Type, Operation>(out, inputs, at, kStep);
  if (whole < bytes) step<Type, Operation>(out, inputs, whole, bytes - whole);
}

/// Reduces a few inputs, whose addresses stay in registers.
template <class Type, class Operation, size_t kInputs>
CONVOY_INLINE void steps_of(const Job& job) {
  std::array<const void*, kInputs> inputs;
  for (size_t r = 0; r < kInputs; ++r) inputs[r] = job.inputs[r];
  steps<Type, Operation>(job, inputs);
}

template <class Type, class Operation>
CONVOY_INLINE void loop(const Job& job) {
  switch (job.inputs.size()) {
    case 2:
      return steps_of<Type, Operation, 2>(job);
    case 4:
      return steps_of<Type, Operation, 4>(job);
    default:
      return steps<Type, Operation>(job, job.inputs);
  }
}

template <class Type>
CONVOY_INLINE void choose_op(const Job& job) {
  job.op == Reduction::Sum ? loop<Type, Add>(job) : loop<Type, Larger>(job);
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
      return choose_op<Bf16>(job);
    // Sums wrap around: unsigned, where that is defined. A maximum needs the sign.
    case Dtype::I8:
      return job.op == Reduction::Sum ? loop<Plain<uint8_t>, Add>(job)
                                      : loop<Plain<int8_t>, Larger>(job);
    case Dtype::U8:
      return choose_op<Plain<uint8_t>>(job);
    case Dtype::I32:
      return job.op == Reduction::Sum ? loop<Plain<uint32_t>, Add>(job)
                                      : loop<Plain<int32_t>, Larger>(job);
    case Dtype::I64:
      return job.op == Reduction::Sum ? loop<Plain<uint64_t>, Add>(job)
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
  constexpr size_t kSizes[] = {4, 8, 2, 2, 1, 1, 4, 8};
  return kSizes[static_cast<size_t>(dtype)];
}

const char* name_of(Dtype dtype) {
  constexpr const char* kNames[] = {"fp32", "fp64",  "fp16",  "bf16",
                                    "int8", "uint8", "int32", "int64"};
  return kNames[static_cast<size_t>(dtype)];
}

Instructions best_instructions() {
#if defined(__x86_64__)
  static const auto best =
      __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
              __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq")
          ? Instructions::Avx512
      : __builtin_cpu_supports("avx2") ? Instructions::Avx2
                                       : Instructions::Any;
  return best;
#else
  return Instructions::Any;
#endif
}

void reduce(Dtype dtype, Reduction op, void* out, std::span<const void* const> inputs, size_t count,
            [[maybe_unused]] Instructions instructions) {
  if (count == 0) return;
  if (inputs.size() == 1) {
    if (out != inputs[0]) std::memmove(out, inputs[0], count * size_of(dtype));
    return;
  }
  const Job job{dtype, op, out, inputs, count};
#if defined(__x86_64__)
  if (instructions == Instructions::Avx512) return reduce_avx512(job);
  if (instructions == Instructions::Avx2) return reduce_avx2(job);
#endif
  reduce_any(job);
}

}  // namespace convoy::shm
