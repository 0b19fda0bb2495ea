// End of a step on the device: the gradient's norm, the factor that clips it, and whether the step
// is skipped. Update::decide() finds the same numbers on the host, later.

struct Clip {
  double loss_scale;
  double limit;               // of the norm; 0: none
  long long targets, squares;  // places among the totals
  long long words, ranks;      // a word of each rank, and then the step that each makes
  long long signal, shortage;  // units of a word: a rank's loss is not finite below `signal`
  long long told;              // place of what this kernel tells the host: skipped, divisor
};

extern "C" __global__ void convoy_clip(double* totals, const Clip at, float* state) {
  const double* words = totals + at.words;
  const double* steps = words + at.ranks;
  bool skip = false;
  for (long long rank = 0; rank < at.ranks; ++rank) {
    const long long word = (long long)words[rank];
    skip = skip || word % at.signal != 0 || word >= at.shortage || steps[rank] != steps[0];
  }
  const double targets = totals[at.targets];
  const double count = targets > 0 ? targets : 1;
  const float norm = (float)(sqrt(fabs(totals[at.squares])) / count / at.loss_scale);
  skip = skip || !(norm - norm == 0);
  const double scale = at.limit > 0 ? fmin(1.0, at.limit / (norm + 1e-6)) : 1.0;
  const double divisor = count * at.loss_scale / scale;
  totals[at.told] = skip;
  totals[at.told + 1] = divisor;
  state[0] = (float)(1 / divisor);
  state[1] = skip;
  state[2] = (float)divisor;
}

// What a rank knows at the end of its step, for the sum over the ranks. Update::close_totals() does
// it by operations.
struct Close {
  long long loss, squares, writing, word, step;  // places among the totals
  double told, steps;                            // this rank's word without its loss, and its step
  double writes;
};

// Adds up `sums` [count] of squares, too; one block of 256 threads.
extern "C" __global__ void __launch_bounds__(256)
    convoy_close(double* totals, const double* sums, const long long count, const Close at) {
  __shared__ double parts[8];
  double sum = 0;
  for (long long i = threadIdx.x; i < count; i += blockDim.x) sum += sums[i];
  sum = sum_of_warp(sum);
  if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = sum;
  __syncthreads();
  if (threadIdx.x != 0) return;
  for (int warp = 1; warp < 8; ++warp) sum += parts[warp];
  const double loss = totals[at.loss];
  totals[at.squares] += sum;
  totals[at.writing] += at.writes;
  totals[at.word] += at.told + (loss - loss == 0 ? 0 : 1);
  totals[at.step] += at.steps;
}
