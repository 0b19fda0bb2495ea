// What a GPU's attention kernels compute, beside the host: cuDNN's on Hopper, else torch's.
#include "convoy/nn/attention/attention.h"

#include <ATen/ATen.h>
#include <ATen/Context.h>
#include <torch/csrc/autograd/autograd.h>

#include <string>

#include "convoy/gpu/failures.h"
#include "convoy/nn/device_kernel.h"
#include "tests/gpu/calls_of.h"
#include "tests/gpu/gpu_testing.h"

namespace convoy::nn {
namespace {

using AttentionKernels = Gpu;

struct Shape {
  int64_t rows, heads, key_heads, length, width;
};

/// What attention gives and the gradients of q, k and v, all in fp32 on the host.
std::vector<at::Tensor> attended(const Shape& shape, AttentionOptions options, at::Device device,
                                 at::ScalarType dtype) {
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

std::vector<at::Tensor> attended(const Shape& shape, bool causal, at::Device device,
                                 at::ScalarType dtype, double dropout = 0) {
  AttentionOptions options;
  options.causal = causal;
  options.dropout = dropout;
  return attended(shape, options, device, dtype);
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

/// Rows of documents: of one position, longer and shorter than a window, padding in the middle and
/// at the end.
at::Tensor documents_of_rows(int64_t rows, int64_t length) {
  auto out = at::full({rows, length}, -1, at::kLong);
  for (int64_t row = 0, number = 0; row < rows; ++row) {
    int64_t begin = 0;
    for (const int64_t part : {int64_t{1}, 5 + row, int64_t{140}, int64_t{1}, 20 + 3 * row}) {
      out[row].narrow(0, begin, part).fill_(number++);
      begin += part + (part == 140 ? 7 * row : 0);
    }
  }
  return out;
}

TEST_F(AttentionKernels, DocumentsAndWindowsAreOneLaunch) {
  constexpr int64_t kRows = 3, kLength = 300;
  for (const bool documents : {false, true}) {
    for (const int64_t window : {0, 1, 16, 140, 1000}) {
      if (!documents && (window == 0 || window > kLength)) continue;
      for (const int64_t key_heads : {4, 2}) {
        for (const auto dtype : {at::kBFloat16, at::kHalf}) {
          SCOPED_TRACE(testing::Message() << documents << " window " << window << " key heads "
                                          << key_heads << " " << c10::toString(dtype));
          const Shape shape{kRows, 4, key_heads, kLength, 32};
          AttentionOptions options;
          options.window = window;
          if (documents) options.documents = documents_of_rows(kRows, kLength);
          const auto here = attended(shape, options, at::kCPU, at::kFloat);
          std::vector<at::Tensor> there;
          const auto run = [&] { there = attended(shape, options, gpu_, dtype); };
          EXPECT_EQ(calls_of("aten::_flash_attention_forward", run), 1);
          EXPECT_EQ(calls_of("aten::_flash_attention_backward", run), 1);
          // The other way, which deterministic runs take.
          at::globalContext().setSDPUseFlash(false);
          const auto apart = attended(shape, options, gpu_, dtype);
          at::globalContext().setSDPUseFlash(true);
          for (size_t i = 0; i < here.size(); ++i) {
            const double tolerance = 2e-2 * (1 + here[i].abs().max().item<double>());
            EXPECT_LE((there[i] - here[i]).abs().max().item<double>(), tolerance) << i;
            EXPECT_LE((there[i] - apart[i]).abs().max().item<double>(), tolerance) << i;
            if (documents) {
              const auto padding = options.documents.lt(0).unsqueeze(1).unsqueeze(3);
              EXPECT_EQ(there[i].masked_select(padding).abs().max().item<double>(), 0) << i;
            }
          }
          EXPECT_TRUE(gpu::failed_kernels().empty());
        }
      }
    }
  }
}

TEST_F(AttentionKernels, VeryManyDocumentsAreSomeLaunches) {
  // Each has room for a tile of gradients in backward: 2,048 take a GiB.
  const Shape shape{3, 8, 8, 700, 128};
  AttentionOptions options;
  options.documents = at::arange(700, at::kLong).expand({3, 700}).contiguous();
  options.documents[1].narrow(0, 300, 50).fill_(-1);
  options.documents[2].narrow(0, 600, 90).fill_(5000);
  const auto here = attended(shape, options, at::kCPU, at::kFloat);
  std::vector<at::Tensor> there;
  const auto run = [&] { there = attended(shape, options, gpu_, at::kBFloat16); };
  EXPECT_EQ(calls_of("aten::_flash_attention_forward", run), 1);
  options.documents[2] = at::arange(700, at::kLong);
  const auto more = attended(shape, options, at::kCPU, at::kFloat);
  std::vector<at::Tensor> there_more;
  EXPECT_EQ(calls_of("aten::_flash_attention_forward",
                     [&] { there_more = attended(shape, options, gpu_, at::kBFloat16); }),
            2);
  for (size_t i = 0; i < here.size(); ++i) {
    const double tolerance = 2e-2 * (1 + here[i].abs().max().item<double>());
    EXPECT_LE((there[i] - here[i]).abs().max().item<double>(), tolerance) << i;
    EXPECT_LE((there_more[i] - more[i]).abs().max().item<double>(), tolerance) << i;
  }
}

TEST_F(AttentionKernels, DocumentsThatTheFlashKernelCannotTakeAreComputedInPieces) {
  const Shape shape{3, 4, 2, 300, 20};  // heads of no multiple of 8
  AttentionOptions plain;
  plain.documents = documents_of_rows(shape.rows, shape.length);
  plain.window = 16;
  auto capped = plain, dropped = plain;
  capped.cap = 1;
  dropped.dropout = 0.2;
  auto wide = shape;
  wide.width = 32;
  for (const auto& [of, options, dtype] : {std::tuple{shape, plain, at::kBFloat16},
                                           {wide, capped, at::kBFloat16},
                                           {wide, dropped, at::kBFloat16},
                                           {wide, plain, at::kFloat}}) {
    const auto here = attended(of, options, at::kCPU, at::kFloat);
    std::vector<at::Tensor> there;
    EXPECT_EQ(calls_of("aten::_flash_attention_forward",
                       [&, &of = of, &options = options, dtype = dtype] {
                         there = attended(of, options, gpu_, dtype);
                       }),
              0);
    for (size_t i = 0; i < here.size(); ++i) {
      const auto off = (there[i] - here[i]).abs().max().item<double>();
      EXPECT_LE(off, 3e-2 * (1 + here[i].abs().max().item<double>())) << i;
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
