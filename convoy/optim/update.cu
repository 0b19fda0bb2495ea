// Updates of many segments of weights in one launch. A segment is a stretch of one set of flat
// buffers; blocks take its elements in chunks. update_kernel.h has the same structs.

struct UpdateSegment {
  float* weights;
  const float* grads;
  void* first;              // moments: fp32 or bf16
  void* second;             // of AdamW alone
  unsigned short* rounded;  // weights in bf16; null for none
  unsigned long long key;   // of the random words that round bf16 moments
  long long begin;          // index of the first element in its parameter, for those words
  long long length;
  float kept;            // factor that weight decay leaves of a weight
  unsigned int chunks;   // of this segment and all before it
};

struct UpdateSegments {
  UpdateSegment of[48];
  int count;
};

// Factors of a step; `grad` is that of the gradients where no Step tells it.
struct AdamW {
  float grad, kept, first, second, second_kept, root, epsilon, rate;
};

struct Lion {
  float grad, kept, rate, beta1, one_less_beta1, beta2, one_less_beta2;
};

// State of the step on the device: factor of the gradients, and whether nothing is updated.
struct Step {
  float grad, skip;
};

const int kChunk = 4096;  // elements

// Segment of a block's chunk.
__device__ inline int segment_of(const UpdateSegments& all, unsigned int chunk) {
  int low = 0, high = all.count - 1;
  while (low < high) {
    const int middle = (low + high) / 2;
    if (chunk < all.of[middle].chunks) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  return low;
}

__device__ inline void adamw(const AdamW& by, float kept, float grad_factor, float& weight,
                             float grad, float& first, float& second) {
  grad *= grad_factor;
  first += by.first * (grad - first);
  second = second * by.second_kept + by.second * grad * grad;
  const float step = __fdiv_rn(by.rate * first, __fsqrt_rn(second) * by.root + by.epsilon);
  weight = weight * kept - step;
}

__device__ inline void lion(const Lion& by, float kept, float grad_factor, float& weight,
                            float grad, float& moment) {
  grad *= grad_factor;
  const float direction = by.beta1 * moment + by.one_less_beta1 * grad;
  const float step = direction > 0 ? by.rate : direction < 0 ? -by.rate : 0.0f;
  weight = weight * kept - step;
  moment = by.beta2 * moment + by.one_less_beta2 * grad;
}

// Calls update(i) for the elements of this block's chunk that come after `from`, in turn.
template <class Update>
__device__ inline void each_element(long long from, long long end, const Update& update) {
  for (long long i = from + threadIdx.x; i < end; i += blockDim.x) update(i);
}

// Bounds of this block's chunk in its segment.
struct Chunk {
  long long begin, end;
};

__device__ inline Chunk chunk_of(const UpdateSegments& all, int segment) {
  const unsigned int before = segment == 0 ? 0 : all.of[segment - 1].chunks;
  const long long begin = (long long)(blockIdx.x - before) * kChunk;
  const long long length = all.of[segment].length;
  const Chunk out = {begin, begin + kChunk < length ? begin + kChunk : length};
  return out;
}

// Factor of the gradients; false where the step changes nothing.
__device__ inline bool step_factor(float given, const Step* step, float& factor) {
  factor = given;
  if (step == nullptr) return true;
  factor = step->grad;
  return step->skip == 0;
}

extern "C" __global__ void __launch_bounds__(256)
    convoy_adamw(const UpdateSegments all, const AdamW by, const Step* step) {
  float factor;
  if (!step_factor(by.grad, step, factor)) return;
  const int number = segment_of(all, blockIdx.x);
  const UpdateSegment& at = all.of[number];
  const Chunk chunk = chunk_of(all, number);
  float* first = (float*)at.first;
  float* second = (float*)at.second;
  long long fours = chunk.begin;
  if (aligned(at.weights, 16) && aligned(at.grads, 16) && aligned(first, 16) &&
      aligned(second, 16) && aligned(at.rounded, 8)) {
    fours = chunk.end - (chunk.end - chunk.begin) % 4;
    for (long long i = chunk.begin + 4 * threadIdx.x; i < fours; i += 4 * blockDim.x) {
      Four weight = load4(at.weights + i), m = load4(first + i), v = load4(second + i);
      const Four grad = load4(at.grads + i);
      for (int k = 0; k < 4; ++k) {
        adamw(by, at.kept, factor, weight.of[k], grad.of[k], m.of[k], v.of[k]);
      }
      store4(at.weights + i, weight);
      store4(first + i, m);
      store4(second + i, v);
      if (at.rounded != nullptr) store4(at.rounded + i, weight);
    }
  }
  each_element(fours, chunk.end, [&](long long i) {
    float weight = at.weights[i], m = first[i], v = second[i];
    adamw(by, at.kept, factor, weight, at.grads[i], m, v);
    at.weights[i] = weight;
    first[i] = m;
    second[i] = v;
    if (at.rounded != nullptr) at.rounded[i] = to_bf16(weight);
  });
}

// Moments in bf16, rounded by random words. 64 elements share 16 counters: word w of counter
// 16 g + l belongs to element 64 g + 16 w + l of its parameter, so a thread takes four elements
// that lie 16 apart.
extern "C" __global__ void __launch_bounds__(256)
    convoy_adamw_bf16(const UpdateSegments all, const AdamW by, const Step* step) {
  float factor;
  if (!step_factor(by.grad, step, factor)) return;
  const int number = segment_of(all, blockIdx.x);
  const UpdateSegment& at = all.of[number];
  const Chunk chunk = chunk_of(all, number);
  unsigned short* first = (unsigned short*)at.first;
  unsigned short* second = (unsigned short*)at.second;
  const long long from = at.begin + chunk.begin, to = at.begin + chunk.end;
  for (long long counter = from / 64 * 16 + threadIdx.x; counter / 16 * 64 < to;
       counter += blockDim.x) {
    const Words words = philox(at.key, (unsigned long long)counter);
    for (int k = 0; k < 4; ++k) {
      const long long element = counter / 16 * 64 + 16 * k + counter % 16;
      if (element < from || element >= to) continue;
      const long long i = element - at.begin;
      float weight = at.weights[i], m = from_bf16(first[i]), v = from_bf16(second[i]);
      adamw(by, at.kept, factor, weight, at.grads[i], m, v);
      at.weights[i] = weight;
      first[i] = to_bf16_by(m, words.of[k] & 0xffffu);
      second[i] = to_bf16_by(v, words.of[k] >> 16);
      if (at.rounded != nullptr) at.rounded[i] = to_bf16(weight);
    }
  }
}

extern "C" __global__ void __launch_bounds__(256)
    convoy_lion(const UpdateSegments all, const Lion by, const Step* step) {
  float factor;
  if (!step_factor(by.grad, step, factor)) return;
  const int number = segment_of(all, blockIdx.x);
  const UpdateSegment& at = all.of[number];
  const Chunk chunk = chunk_of(all, number);
  float* moments = (float*)at.first;
  long long fours = chunk.begin;
  if (aligned(at.weights, 16) && aligned(at.grads, 16) && aligned(moments, 16) &&
      aligned(at.rounded, 8)) {
    fours = chunk.end - (chunk.end - chunk.begin) % 4;
    for (long long i = chunk.begin + 4 * threadIdx.x; i < fours; i += 4 * blockDim.x) {
      Four weight = load4(at.weights + i), m = load4(moments + i);
      const Four grad = load4(at.grads + i);
      for (int k = 0; k < 4; ++k) lion(by, at.kept, factor, weight.of[k], grad.of[k], m.of[k]);
      store4(at.weights + i, weight);
      store4(moments + i, m);
      if (at.rounded != nullptr) store4(at.rounded + i, weight);
    }
  }
  each_element(fours, chunk.end, [&](long long i) {
    float weight = at.weights[i], m = moments[i];
    lion(by, at.kept, factor, weight, at.grads[i], m);
    at.weights[i] = weight;
    moments[i] = m;
    if (at.rounded != nullptr) at.rounded[i] = to_bf16(weight);
  });
}
