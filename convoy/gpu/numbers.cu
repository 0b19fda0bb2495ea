// Beginning of kernels' texts: numbers as bits, bf16 in both directions, four numbers at once, sums
// over a warp, and Philox.

#define CONVOY_INFINITY __uint_as_float(0x7f800000u)

__device__ inline float from_bf16(unsigned short bits) {
  return __uint_as_float((unsigned int)bits << 16);
}

// Bits of x in bf16, rounded to the nearest, to the even of two.
__device__ inline unsigned short to_bf16(float x) {
  const unsigned int bits = __float_as_uint(x);
  return (unsigned short)(x == x ? (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16 : 0x7fc0u);
}

// Bits of x in bf16, rounded up with the probability draw / 65536 of the way: draw 0 to 65535.
__device__ inline unsigned short to_bf16_by(float x, unsigned int draw) {
  return (unsigned short)((x == x ? __float_as_uint(x) + draw : 0x7fc00000u) >> 16);
}

__device__ inline float to_float(float x) {
  return x;
}
__device__ inline float to_float(unsigned short x) {
  return from_bf16(x);
}
__device__ inline void from_float(float* to, float x) {
  *to = x;
}
__device__ inline void from_float(unsigned short* to, float x) {
  *to = to_bf16(x);
}

__device__ inline bool aligned(const void* pointer, unsigned long long bytes) {
  return (unsigned long long)pointer % bytes == 0;
}

// Four neighbours, whose address is a multiple of their bytes.
struct Four {
  float of[4];
};

__device__ inline Four load4(const float* from) {
  const float4 x = *(const float4*)from;
  const Four out = {{x.x, x.y, x.z, x.w}};
  return out;
}

__device__ inline Four load4(const unsigned short* from) {
  const uint2 x = *(const uint2*)from;
  const Four out = {{from_bf16((unsigned short)x.x), from_bf16((unsigned short)(x.x >> 16)),
                     from_bf16((unsigned short)x.y), from_bf16((unsigned short)(x.y >> 16))}};
  return out;
}

__device__ inline void store4(float* to, const Four& x) {
  *(float4*)to = make_float4(x.of[0], x.of[1], x.of[2], x.of[3]);
}

__device__ inline void store4(unsigned short* to, const Four& x) {
  *(uint2*)to = make_uint2(to_bf16(x.of[0]) | (unsigned int)to_bf16(x.of[1]) << 16,
                           to_bf16(x.of[2]) | (unsigned int)to_bf16(x.of[3]) << 16);
}

// Sum over the 32 threads of a warp, equal in each.
template <class T>
__device__ inline T sum_of_warp(T x) {
  for (int lanes = 16; lanes > 0; lanes /= 2) x += __shfl_xor_sync(0xffffffffu, x, lanes);
  return x;
}

struct Words {
  unsigned int of[4];
};

// Philox4x32-10 (Salmon et al., SC'11) of the counter {counter, 0, 0}.
__device__ inline Words philox(unsigned long long key, unsigned long long counter) {
  Words c = {{(unsigned int)counter, (unsigned int)(counter >> 32), 0u, 0u}};
  unsigned int k0 = (unsigned int)key, k1 = (unsigned int)(key >> 32);
  for (int round = 0; round < 10; ++round) {
    const unsigned long long a = 0xD2511F53ull * c.of[0], b = 0xCD9E8D57ull * c.of[2];
    const Words next = {{(unsigned int)(b >> 32) ^ c.of[1] ^ k0, (unsigned int)b,
                         (unsigned int)(a >> 32) ^ c.of[3] ^ k1, (unsigned int)a}};
    c = next;
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  return c;
}
