// Sums of squares of many segments in double precision: a block adds up a chunk of a segment, in an
// order that does not change. squares_kernel.cpp has the same structs.

struct SquaresSegment {
  const float* values;
  long long length;
  unsigned int chunks;  // of this segment and all before it
};

struct SquaresSegments {
  SquaresSegment of[48];
  int count;
};

const int kSquaresChunk = 16384;  // numbers

extern "C" __global__ void __launch_bounds__(256)
    convoy_squares(const SquaresSegments all, double* sums) {
  __shared__ double parts[8];
  int number = 0;
  while (blockIdx.x >= all.of[number].chunks) ++number;
  const SquaresSegment& at = all.of[number];
  const unsigned int before = number == 0 ? 0 : all.of[number - 1].chunks;
  const long long begin = (long long)(blockIdx.x - before) * kSquaresChunk;
  const long long end = begin + kSquaresChunk < at.length ? begin + kSquaresChunk : at.length;
  double sum = 0;
  long long i = begin;
  if (aligned(at.values + begin, 16)) {
    const long long fours = end - (end - begin) % 4;
    for (long long k = begin + 4 * threadIdx.x; k < fours; k += 4 * blockDim.x) {
      const Four x = load4(at.values + k);
      for (int j = 0; j < 4; ++j) sum += (double)x.of[j] * x.of[j];
    }
    i = fours;
  }
  for (i += threadIdx.x; i < end; i += blockDim.x) sum += (double)at.values[i] * at.values[i];
  sum = sum_of_warp(sum);
  if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = sum;
  __syncthreads();
  if (threadIdx.x != 0) return;
  for (int warp = 1; warp < 8; ++warp) sum += parts[warp];
  sums[blockIdx.x] = sum;
}
