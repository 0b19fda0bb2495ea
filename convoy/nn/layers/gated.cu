// Gated activation x s(x) times, and its gradients, eight neighbours a thread. Rows lie `stride`
// numbers apart, as those of two products in one memory. gated_kernel.cpp defines CONVOY_VALUE,
// float or unsigned short for bf16, and CONVOY_SHARE, the function of activation_text.h for it.
#ifndef CONVOY_VALUE
#define CONVOY_VALUE unsigned short
#define CONVOY_SHARE convoy_fast_share
#endif

struct GatedRows {
  const CONVOY_VALUE* x;
  const CONVOY_VALUE* times;
  long long x_stride, times_stride;
  long long eights;  // of a row
  long long count;   // of all rows
  long long normal;
  float linear, cubic;
};

struct Eight {
  Four low, high;
};

__device__ inline Eight load8(const float* from) {
  const Eight out = {load4(from), load4(from + 4)};
  return out;
}

__device__ inline Four halves_of(unsigned int low, unsigned int high) {
  const Four out = {{from_bf16((unsigned short)low), from_bf16((unsigned short)(low >> 16)),
                     from_bf16((unsigned short)high), from_bf16((unsigned short)(high >> 16))}};
  return out;
}

__device__ inline Eight load8(const unsigned short* from) {
  const uint4 x = *(const uint4*)from;
  const Eight out = {halves_of(x.x, x.y), halves_of(x.z, x.w)};
  return out;
}

__device__ inline void store8(float* to, const Eight& x) {
  store4(to, x.low);
  store4(to + 4, x.high);
}

__device__ inline unsigned int two_of(float low, float high) {
  return to_bf16(low) | (unsigned int)to_bf16(high) << 16;
}

__device__ inline void store8(unsigned short* to, const Eight& x) {
  *(uint4*)to = make_uint4(two_of(x.low.of[0], x.low.of[1]), two_of(x.low.of[2], x.low.of[3]),
                           two_of(x.high.of[0], x.high.of[1]), two_of(x.high.of[2], x.high.of[3]));
}

// out [rows, F], contiguous.
extern "C" __global__ void __launch_bounds__(256)
    convoy_gated_rows(const GatedRows by, CONVOY_VALUE* out) {
  const long long at = (long long)blockIdx.x * blockDim.x + threadIdx.x;
  if (at >= by.count) return;
  const long long row = at / by.eights, column = 8 * (at - row * by.eights);
  Eight x = load8(by.x + row * by.x_stride + column);
  const Eight times = load8(by.times + row * by.times_stride + column);
  for (int i = 0; i < 4; ++i) {
    float slope;
    const float low = x.low.of[i], high = x.high.of[i];
    x.low.of[i] = low * CONVOY_SHARE(low, by.normal, by.linear, by.cubic, &slope) * times.low.of[i];
    x.high.of[i] =
        high * CONVOY_SHARE(high, by.normal, by.linear, by.cubic, &slope) * times.high.of[i];
  }
  store8(out + 8 * at, x);
}

__device__ inline void turn_back(const GatedRows& by, float grad, float& x, float& times) {
  float slope;
  const float share = CONVOY_SHARE(x, by.normal, by.linear, by.cubic, &slope);
  const float of_x = grad * times * (share + x * slope);
  times = grad * x * share;
  x = of_x;
}

// grads [rows, 2, F] of x and of `times`, for those of the result [rows, F].
extern "C" __global__ void __launch_bounds__(256)
    convoy_gated_rows_back(const GatedRows by, const CONVOY_VALUE* out_grads,
                           CONVOY_VALUE* grads) {
  const long long at = (long long)blockIdx.x * blockDim.x + threadIdx.x;
  if (at >= by.count) return;
  const long long row = at / by.eights, column = 8 * (at - row * by.eights);
  const long long width = 8 * by.eights;
  Eight x = load8(by.x + row * by.x_stride + column);
  Eight times = load8(by.times + row * by.times_stride + column);
  const Eight grad = load8(out_grads + row * width + column);
  for (int i = 0; i < 4; ++i) {
    turn_back(by, grad.low.of[i], x.low.of[i], times.low.of[i]);
    turn_back(by, grad.high.of[i], x.high.of[i], times.high.of[i]);
  }
  CONVOY_VALUE* to = grads + 2 * row * width + column;
  store8(to, x);
  store8(to + width, times);
}
