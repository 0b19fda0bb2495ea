// Sum of two states and its normalised rows in one pass, and the way back in one. A block takes a
// row at a time, a thread the numbers 4 t .. 4 t + 3 of it and, in rows wider than a block, those
// 4 kThreads further on. add_norm_kernel.cpp defines, before this text:
//   CONVOY_WIDTH    D, a multiple of 4
//   CONVOY_THREADS  threads of a block
//   CONVOY_LAYER    1: layer normalisation, 0: RMS normalisation
//   CONVOY_ADDED, CONVOY_ROW, CONVOY_WEIGHT   float, or unsigned short for bf16
#ifndef CONVOY_WIDTH
#define CONVOY_WIDTH 2048
#define CONVOY_THREADS 512
#define CONVOY_LAYER 1
#define CONVOY_ADDED unsigned short
#define CONVOY_ROW unsigned short
#define CONVOY_WEIGHT unsigned short
#endif

const int kWidth = CONVOY_WIDTH, kThreads = CONVOY_THREADS, kWarps = kThreads / 32;
const int kFours = (kWidth / 4 + kThreads - 1) / kThreads;  // of a thread

struct NormFacts {
  float epsilon;
  float more;  // added to each weight
};

// Sum over the block, equal in each thread. `parts` [kWarps] is not in use elsewhere until the
// block has met again.
__device__ inline float sum_of_block(float x, float* parts) {
  x = sum_of_warp(x);
  if (kWarps == 1) return x;
  if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = x;
  __syncthreads();
  const int lane = threadIdx.x % 32;
  return sum_of_warp(lane < kWarps ? parts[lane] : 0.0f);
}

// Index of a thread's k-th four numbers in a row, and whether the row has them.
__device__ inline int place(int k) {
  return 4 * (threadIdx.x + k * kThreads);
}
__device__ inline bool exists(int k) {
  return (k + 1) * 4 * kThreads <= kWidth || place(k) < kWidth;
}

// Four numbers of a parameter, which may begin at any element of its buffer.
__device__ inline Four each_of(const CONVOY_WEIGHT* from) {
  const Four out = {{to_float(from[0]), to_float(from[1]), to_float(from[2]), to_float(from[3])}};
  return out;
}

// states [R, D] = x + added where there is an `added`; rows [R, D] = those normalised; stats [R, 2]:
// mean (0 without CONVOY_LAYER), and one over the deviation.
extern "C" __global__ void __launch_bounds__(CONVOY_THREADS)
    convoy_add_norm(const float* x, const CONVOY_ADDED* added, float* states, CONVOY_ROW* rows,
                    const CONVOY_WEIGHT* weight, const CONVOY_WEIGHT* bias, float* stats,
                    const NormFacts facts) {
  __shared__ float means[kWarps], squares[kWarps];
  const long long begin = (long long)blockIdx.x * kWidth;
  Four v[kFours];
  float sum = 0;
  for (int k = 0; k < kFours; ++k) {
    if (!exists(k)) continue;
    const long long at = begin + place(k);
    v[k] = load4(x + at);
    if (added != nullptr) {
      const Four more = load4(added + at);
      for (int i = 0; i < 4; ++i) v[k].of[i] += more.of[i];
      store4(states + at, v[k]);
    }
    for (int i = 0; i < 4; ++i) sum += v[k].of[i];
  }
  const float mean = CONVOY_LAYER ? sum_of_block(sum, means) * (1.0f / kWidth) : 0.0f;
  float square = 0;
  for (int k = 0; k < kFours; ++k) {
    if (!exists(k)) continue;
    for (int i = 0; i < 4; ++i) {
      v[k].of[i] -= mean;
      square += v[k].of[i] * v[k].of[i];
    }
  }
  const float variance = sum_of_block(square, squares) * (1.0f / kWidth);
  const float scale = __fdiv_rn(1.0f, __fsqrt_rn(variance + facts.epsilon));
  for (int k = 0; k < kFours; ++k) {
    if (!exists(k)) continue;
    const Four factor = each_of(weight + place(k));
    Four plus = {{0, 0, 0, 0}};
    if (bias != nullptr) plus = each_of(bias + place(k));
    for (int i = 0; i < 4; ++i) {
      v[k].of[i] = v[k].of[i] * scale * (factor.of[i] + facts.more) + plus.of[i];
    }
    store4(rows + begin + place(k), v[k]);
  }
  if (threadIdx.x == 0) {
    stats[2 * blockIdx.x] = mean;
    stats[2 * blockIdx.x + 1] = scale;
  }
}

// grads [R, D]: gradients of x, which are those of the states (null: none) and what comes through
// the norm; added_grads: those of `added`, equal but for the dtype, or null. sums [blocks, 1 or 2,
// D]: a block's part of the gradients of the weight and of the bias, or null.
extern "C" __global__ void __launch_bounds__(CONVOY_THREADS)
    convoy_add_norm_back(const CONVOY_ROW* row_grads, const float* state_grads,
                         const float* states, const float* stats, const CONVOY_WEIGHT* weight,
                         float* grads, CONVOY_ADDED* added_grads, float* sums,
                         const NormFacts facts, const long long num_rows) {
  __shared__ float sums_of_grads[2][kWarps], products[2][kWarps];
  Four factor[kFours], weight_sums[kFours], bias_sums[kFours];
  for (int k = 0; k < kFours; ++k) {
    const Four none = {{0, 0, 0, 0}};
    weight_sums[k] = bias_sums[k] = none;
    if (exists(k)) factor[k] = each_of(weight + place(k));
  }
  int turn = 0;
  for (long long row = blockIdx.x; row < num_rows; row += gridDim.x) {
    const long long begin = row * kWidth;
    const float mean = stats[2 * row], scale = stats[2 * row + 1];
    Four x[kFours], g[kFours];
    float sum = 0, along = 0;
    for (int k = 0; k < kFours; ++k) {
      if (!exists(k)) continue;
      x[k] = load4(states + begin + place(k));
      g[k] = load4(row_grads + begin + place(k));
      for (int i = 0; i < 4; ++i) {
        const float unit = (x[k].of[i] - mean) * scale;
        weight_sums[k].of[i] += g[k].of[i] * unit;
        if (CONVOY_LAYER) bias_sums[k].of[i] += g[k].of[i];
        const float grad = g[k].of[i] * (factor[k].of[i] + facts.more);
        x[k].of[i] = unit;
        g[k].of[i] = grad;
        sum += grad;
        along += grad * unit;
      }
    }
    const float level =
        CONVOY_LAYER ? sum_of_block(sum, sums_of_grads[turn]) * (1.0f / kWidth) : 0.0f;
    const float slope = sum_of_block(along, products[turn]) * (1.0f / kWidth);
    turn = 1 - turn;  // the other memory: some threads may still read this one
    for (int k = 0; k < kFours; ++k) {
      if (!exists(k)) continue;
      const long long at = begin + place(k);
      Four out = {{0, 0, 0, 0}};
      if (state_grads != nullptr) out = load4(state_grads + at);
      for (int i = 0; i < 4; ++i) {
        out.of[i] += scale * (g[k].of[i] - level - x[k].of[i] * slope);
      }
      store4(grads + at, out);
      if (added_grads != nullptr) store4(added_grads + at, out);
    }
  }
  if (sums == nullptr) return;
  float* own = sums + (long long)blockIdx.x * (1 + CONVOY_LAYER) * kWidth;
  for (int k = 0; k < kFours; ++k) {
    if (!exists(k)) continue;
    store4(own + place(k), weight_sums[k]);
    if (CONVOY_LAYER) store4(own + kWidth + place(k), bias_sums[k]);
  }
}
