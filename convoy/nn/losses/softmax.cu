// Cross-entropy of rows of scores in two passes over a row, of which caches serve the second; and
// the two passes apart, for columns that several ranks have. A block takes a row. Rows lie `stride`
// numbers apart; a row has `count` scores, and what stands between them is not read.
// softmax_kernel.cpp defines CONVOY_SCORE, float or unsigned short for bf16, and CONVOY_THREADS of a
// block, before this text.
#ifndef CONVOY_SCORE
#define CONVOY_SCORE unsigned short
#define CONVOY_THREADS 512
#endif

const int kThreads = CONVOY_THREADS, kWarps = kThreads / 32;

// How scores become logits: those of softmax.
struct Scores {
  long long count, stride;
  float inverse_temperature;
  float cap;  // logits are cap tanh(score / cap); 0: none
};

__device__ inline float logit_of(float score, const Scores& by) {
  if (by.cap != 0) score = by.cap * tanhf(score / by.cap);
  return score * by.inverse_temperature;
}

__device__ inline bool in_fours(const CONVOY_SCORE* row, const Scores& by) {
  return by.stride % 4 == 0 && aligned(row, 4 * sizeof(CONVOY_SCORE));
}

// Calls take(column, score) for this thread's part of a row.
template <class Take>
__device__ inline void each_score(const CONVOY_SCORE* row, const Scores& by, const Take& take) {
  if (in_fours(row, by)) {
    for (long long at = 4 * threadIdx.x; at < by.count; at += 4 * kThreads) {
      const Four x = load4(row + at);
      for (int i = 0; i < 4; ++i) {
        if (at + i < by.count) take(at + i, x.of[i]);
      }
    }
    return;
  }
  for (long long at = threadIdx.x; at < by.count; at += kThreads) take(at, to_float(row[at]));
}

// Replaces each score by change(column, score), and what stands behind a row by zeros.
template <class Change>
__device__ inline void change_scores(CONVOY_SCORE* row, const Scores& by, const Change& change) {
  if (in_fours(row, by)) {
    for (long long at = 4 * threadIdx.x; at < by.stride; at += 4 * kThreads) {
      Four x = load4(row + at);
      for (int i = 0; i < 4; ++i) x.of[i] = at + i < by.count ? change(at + i, x.of[i]) : 0.0f;
      store4(row + at, x);
    }
    return;
  }
  for (long long at = threadIdx.x; at < by.stride; at += kThreads) {
    const float x = at < by.count ? change(at, to_float(row[at])) : 0.0f;
    from_float(row + at, x);
  }
}

// The largest logit of some, and the sum of exponentials less that.
struct Softmax {
  float top, sum;
};

__device__ inline Softmax both(const Softmax& a, const Softmax& b) {
  const float top = a.top > b.top ? a.top : b.top;
  if (top == -CONVOY_INFINITY) {
    const Softmax none = {top, a.sum + b.sum};
    return none;
  }
  const Softmax out = {top, a.sum * expf(a.top - top) + b.sum * expf(b.top - top)};
  return out;
}

__device__ inline Softmax softmax_of_warp(Softmax x) {
  for (int lanes = 16; lanes > 0; lanes /= 2) {
    const Softmax other = {__shfl_xor_sync(0xffffffffu, x.top, lanes),
                           __shfl_xor_sync(0xffffffffu, x.sum, lanes)};
    x = both(x, other);
  }
  return x;
}

// Softmax of a row; the column `left_out` is in the top alone.
__device__ inline Softmax softmax_of(const CONVOY_SCORE* row, const Scores& by,
                                     long long left_out) {
  __shared__ float tops[kWarps], sums[kWarps];
  Softmax mine = {-CONVOY_INFINITY, 0};
  each_score(row, by, [&](long long column, float score) {
    const float x = logit_of(score, by);
    if (x == -CONVOY_INFINITY) return;
    if (x > mine.top) {
      mine.sum *= expf(mine.top - x);
      mine.top = x;
    }
    // A score that is no number makes the sum none.
    if (column != left_out || x != x) mine.sum += expf(x - mine.top);
  });
  mine = softmax_of_warp(mine);
  if (threadIdx.x % 32 == 0) {
    tops[threadIdx.x / 32] = mine.top;
    sums[threadIdx.x / 32] = mine.sum;
  }
  __syncthreads();
  const int lane = threadIdx.x % 32;
  const Softmax part = {lane < kWarps ? tops[lane] : -CONVOY_INFINITY,
                        lane < kWarps ? sums[lane] : 0.0f};
  return softmax_of_warp(part);
}

// losses [R] of scores [R, stride], which become softmax minus one-hot where `wants_slope`.
extern "C" __global__ void __launch_bounds__(CONVOY_THREADS)
    convoy_cross_entropy(CONVOY_SCORE* scores, const long long* columns, float* losses,
                         const Scores by, const int wants_slope) {
  CONVOY_SCORE* row = scores + blockIdx.x * by.stride;
  const long long column = columns[blockIdx.x];
  const float own = logit_of(to_float(row[column]), by);
  const Softmax others = softmax_of(row, by, column);
  const float likely = expf(own - others.top);
  if (threadIdx.x == 0) {
    losses[blockIdx.x] = others.sum < likely ? log1pf(others.sum / likely)
                                             : logf(others.sum + likely) + (others.top - own);
  }
  if (!wants_slope) return;
  const float scale = 1 / (others.sum + likely);
  __syncthreads();  // all have read the target's score
  change_scores(row, by, [&](long long at, float score) {
    float turn = 1;
    if (by.cap != 0) {
      const float share = tanhf(score / by.cap);
      turn = 1 - share * share;
    }
    const float slope =
        at == column ? -others.sum : expf(logit_of(score, by) - others.top);
    return slope * scale * turn;
  });
}

// log_sums [R]: logarithms of the rows' sums of exponentials.
extern "C" __global__ void __launch_bounds__(CONVOY_THREADS)
    convoy_log_sums(const CONVOY_SCORE* scores, float* log_sums, const Scores by) {
  const Softmax all = softmax_of(scores + blockIdx.x * by.stride, by, -1);
  if (threadIdx.x == 0) log_sums[blockIdx.x] = logf(all.sum) + all.top;
}

// Scores become softmax minus one-hot, by logarithms of sums over the columns of all ranks.
extern "C" __global__ void __launch_bounds__(CONVOY_THREADS)
    convoy_slopes(CONVOY_SCORE* scores, const float* log_sums, const long long* columns,
                  const Scores by) {
  const float sum = log_sums[blockIdx.x];
  const long long column = columns[blockIdx.x];
  change_scores(scores + blockIdx.x * by.stride, by, [&](long long at, float score) {
    return expf(logit_of(score, by) - sum) - (at == column ? 1.0f : 0.0f);
  });
}
