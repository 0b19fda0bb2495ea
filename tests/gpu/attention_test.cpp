// What a GPU's attention kernels compute, beside the host: cuDNN's on Hopper, else torch's.
#include "convoy/nn/attention/attention.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/autograd.h>

#include "tests/gpu/gpu_testing.h"

namespace convoy::nn {
namespace {

using AttentionKernels = Gpu;

struct Shape {
  int64_t rows, heads, key_heads, length, width;
};

/// What attention gives and the gradients of q, k and v, all in fp32 on the host.
std::vector<at::Tensor> attended(const Shape& shape, bool causal, at::Device device,
                                 at::ScalarType dtype, double dropout = 0) {
  at::manual_seed(3);
  const auto drawn = [&](int64_t heads) {
    // Heads behind positions in memory, as products leave them.
    return at::randn({shape.rows, shape.length, heads, shape.width})
        .to(at::kBFloat16)
        .to(device, dtype)
        .transpose(1, 2)
        .requires_grad_(true);
  };
  const auto q = drawn(shape.heads), k = drawn(shape.key_heads), v = drawn(shape.key_heads);
  AttentionOptions options;
  options.causal = causal;
  options.dropout = dropout;
  options.max_length = 512;
  Context context;
  context.samples = at::arange(shape.rows, at::kLong) + 5;
  const auto out = attention(q, k, v, options, context);
  const auto probe = at::randn({shape.rows, shape.length, shape.heads, shape.width})
                         .to(at::kBFloat16)
                         .to(device, dtype)
                         .transpose(1, 2);
  torch::autograd::backward({out}, {probe});
  std::vector<at::Tensor> results{out.detach(), q.grad(), k.grad(), v.grad()};
  for (auto& result : results) result = result.cpu().to(at::kFloat);
  return results;
}

TEST_F(AttentionKernels, AreTheHosts) {
  // More shapes than cuDNN may make plans for; the same one twice; short ones, and wide heads.
  const std::vector<Shape> shapes{{2, 4, 4, 128, 64},  {2, 4, 2, 256, 64}, {1, 2, 2, 200, 32},
                                  {2, 6, 1, 384, 128}, {2, 4, 2, 256, 64}, {3, 4, 4, 20, 16},
                                  {1, 2, 1, 130, 24},  {1, 2, 2, 136, 96}, {1, 2, 2, 144, 64},
                                  {1, 2, 2, 152, 64},  {1, 1, 1, 128, 256}};
  for (const auto& shape : shapes) {
    for (const bool causal : {true, false}) {
      SCOPED_TRACE(std::to_string(shape.length) + (causal ? " causal" : ""));
      const auto here = attended(shape, causal, at::kCPU, at::kFloat);
      const auto there = attended(shape, causal, gpu_, at::kBFloat16);
      for (size_t i = 0; i < here.size(); ++i) {
        const auto off = (there[i] - here[i]).abs().max().item<double>();
        EXPECT_LE(off, 2e-2 * (1 + here[i].abs().max().item<double>())) << i;
      }
    }
  }
}

TEST_F(AttentionKernels, DropWhatTheHostDrops) {
  // Lines of whole chunks of the mask, and others.
  for (const auto& shape :
       {Shape{2, 4, 2, 256, 32}, Shape{2, 4, 4, 128, 16}, Shape{2, 2, 2, 50, 16}}) {
    for (const bool causal : {true, false}) {
      for (const auto dtype : {at::kFloat, at::kBFloat16}) {
        SCOPED_TRACE(std::to_string(shape.length) + (causal ? " causal " : " ") +
                     c10::toString(dtype));
        const auto here = attended(shape, causal, at::kCPU, at::kFloat, 0.2);
        const auto there = attended(shape, causal, gpu_, dtype, 0.2);
        const double tolerance = dtype == at::kFloat ? 1e-5 : 3e-2;
        for (size_t i = 0; i < here.size(); ++i) {
          const auto off = (there[i] - here[i]).abs().max().item<double>();
          EXPECT_LE(off, tolerance * (1 + here[i].abs().max().item<double>())) << i;
        }
      }
    }
  }
}

}  // namespace
}  // namespace convoy::nn
