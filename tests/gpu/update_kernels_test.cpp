// Optimizers' kernels of update.cu beside the host's update.
#include <ATen/ATen.h>

#include "convoy/gpu/failures.h"
#include "convoy/optim/kernel_optimizer.h"
#include "convoy/optim/optimizer.h"
#include "tests/gpu/gpu_testing.h"

namespace convoy::optim {
namespace {

using UpdateKernels = Gpu;

/// Ranges of odd lengths, some of which 16-byte loads do not fit, as one set of flat buffers.
std::vector<FlatRange> ranges(const Optimizer& optimizer, at::Device device,
                              const std::vector<int64_t>& lengths, bool rounds) {
  int64_t all = 0;
  for (const int64_t length : lengths) all += length;
  at::manual_seed(3);
  const auto weights = at::randn({all}).to(device), grads = (at::randn({all}) * 5).to(device);
  std::vector<at::Tensor> states;
  for (const auto& state : optimizer.states()) {
    states.push_back(at::rand({all}).to(state.dtype).to(device));
  }
  const auto rounded = at::zeros({all}, weights.options().dtype(at::kBFloat16));
  std::vector<FlatRange> out;
  int64_t begin = 0;
  for (const int64_t length : lengths) {
    const auto part = [&](const at::Tensor& x) { return x.narrow(0, begin, length); };
    FlatRange range{.weights = part(weights), .grads = part(grads)};
    for (const auto& state : states) range.states.push_back(part(state));
    if (rounds) range.rounded = part(rounded);
    range.weight_decay = out.size() % 2 == 0 ? 0.1 : 0;
    const int64_t half = length / 2;
    if (half > 0) range.spans.push_back({"first", 1000, 0, half});
    range.spans.push_back({"second", 0, half, length - half});
    out.push_back(std::move(range));
    begin += length;
  }
  return out;
}

/// Largest difference of all that two updates changed, relative to the largest number. A number in
/// bf16 may be rounded to either side.
void expect_equal(const std::vector<FlatRange>& on_gpu, const std::vector<FlatRange>& on_host) {
  const auto compare = [](const at::Tensor& x, const at::Tensor& y) {
    const auto off = (x.cpu().to(at::kDouble) - y.to(at::kDouble)).abs().max().item<double>();
    const double unit = y.scalar_type() == at::kFloat ? 1e-6 : 1.0 / 128;
    EXPECT_LE(off, unit * y.to(at::kDouble).abs().max().item<double>());
  };
  for (size_t i = 0; i < on_gpu.size(); ++i) {
    SCOPED_TRACE(i);
    compare(on_gpu[i].weights, on_host[i].weights);
    for (size_t k = 0; k < on_gpu[i].states.size(); ++k) {
      SCOPED_TRACE(k);
      compare(on_gpu[i].states[k], on_host[i].states[k]);
    }
    if (on_gpu[i].rounded.defined()) compare(on_gpu[i].rounded, on_host[i].rounded);
  }
}

const std::vector<const char*> kOptimizers{"adamw_torch", "adamw_bf16", "lion_32bit"};
const std::vector<int64_t> kLengths{4096, 8200, 1, 3, 5000, 32};

TEST_F(UpdateKernels, UpdateAsTheHostDoes) {
  const StepNumbers numbers{.learning_rate = 1e-2, .step = 7, .grad_divisor = 3, .seed = 5};
  for (const auto* name : kOptimizers) {
    for (const bool rounds : {false, true}) {
      SCOPED_TRACE(fmt::format("{} {}", name, rounds));
      const auto optimizer = make_optimizer(name);
      const auto here = ranges(*optimizer, gpu_, kLengths, rounds),
                 there = ranges(*optimizer, at::kCPU, kLengths, rounds);
      optimizer->update_all(here, numbers);
      for (const auto& range : there) optimizer->update(range, numbers);
      expect_equal(here, there);
    }
  }
  EXPECT_TRUE(gpu::failed_kernels().empty()) << gpu::failed_kernels().front();
}

TEST_F(UpdateKernels, TakeMoreRangesThanALaunchHas) {
  const StepNumbers numbers{.learning_rate = 1e-2, .step = 1};
  const std::vector<int64_t> lengths(101, 37);
  const auto optimizer = make_optimizer("adamw_bf16");  // a segment for each half
  const auto here = ranges(*optimizer, gpu_, lengths, true),
             there = ranges(*optimizer, at::kCPU, lengths, true);
  optimizer->update_all(here, numbers);
  for (const auto& range : there) optimizer->update(range, numbers);
  expect_equal(here, there);
}

TEST_F(UpdateKernels, ReadTheStepsStateOnTheDevice) {
  for (const auto* name : kOptimizers) {
    SCOPED_TRACE(name);
    const auto optimizer = make_optimizer(name);
    const StepNumbers known{.learning_rate = 1e-2, .step = 2, .grad_divisor = 4, .seed = 1};
    auto unknown = known;
    unknown.grad_divisor = 1;
    for (const bool skip : {false, true}) {
      unknown.device_state = at::tensor({0.25, skip ? 1.0 : 0.0, 4.0}, at::kFloat).to(gpu_);
      const auto here = ranges(*optimizer, gpu_, kLengths, true),
                 there = ranges(*optimizer, at::kCPU, kLengths, true);
      ASSERT_TRUE(optimizer->reads_device_state(here));
      optimizer->update_all(here, unknown);
      for (const auto& range : there) {
        if (!skip) optimizer->update(range, known);
      }
      expect_equal(here, there);
    }
  }
}

/// AdamW whose operations of torch find other numbers than its kernel.
class Wrong : public KernelOptimizer {
 public:
  std::string name() const override { return "wrong"; }
  std::vector<StateSpec> states() const override { return {{"exp_avg"}}; }

 private:
  UpdateKernel& kernel() const override {
    static UpdateKernel kernel("convoy_lion", /*draws=*/false);
    return kernel;
  }
  void update_on_host(const FlatRange&, const StepNumbers&) const override {}
  void update_by_kernel(const std::vector<FlatRange>& some,
                        const StepNumbers& numbers) const override {
    const std::array<float, 7> factors{1, 1, 0.5, 0.9F, 0.1F, 0.9F, 0.1F};
    kernel().run(some, numbers, factors);
  }
  void update_by_operations(const std::vector<FlatRange>& some, const StepNumbers&) const override {
    for (const auto& range : some) at::Tensor(range.weights).zero_();
  }
};

TEST_F(UpdateKernels, GiveUpAKernelWithOtherNumbersThanTorch) {
  const Wrong wrong;
  const auto here = ranges(wrong, gpu_, kLengths, false);
  const auto before = gpu::failed_kernels().size();
  wrong.update_all(here, {});
  EXPECT_EQ(here[0].weights.abs().max().item<float>(), 0);  // torch's
  EXPECT_FALSE(wrong.reads_device_state(here));
  ASSERT_EQ(gpu::failed_kernels().size(), before + 1);
  EXPECT_NE(gpu::failed_kernels().back().find("convoy_lion: it differs from torch's operations"),
            std::string::npos);
}

}  // namespace
}  // namespace convoy::optim

namespace convoy::gpu {
namespace {

using OwnKernels = Gpu;

TEST_F(OwnKernels, TellWhyTheyCannotBeCompiled) {
  Kernel kernel("nothing", "nothing of C");
  const auto before = failed_kernels().size();
  EXPECT_FALSE(kernel.runs_on(gpu_));
  EXPECT_FALSE(kernel.runs_on(gpu_));  // asked once
  ASSERT_EQ(failed_kernels().size(), before + 1);
  EXPECT_NE(failed_kernels().back().find("nothing: NVRTC cannot compile it for sm_"),
            std::string::npos)
      << failed_kernels().back();
}

TEST_F(OwnKernels, CanBeTurnedOff) {
  Kernel kernel("never", "extern \"C\" __global__ void never() {}");
  ::setenv("CONVOY_GPU_KERNELS", "0", 1);
  EXPECT_FALSE(kernel.runs_on(gpu_));
  ::unsetenv("CONVOY_GPU_KERNELS");
  EXPECT_TRUE(kernel.runs_on(gpu_));
  EXPECT_FALSE(kernel.runs_on(at::kCPU));
}

TEST_F(OwnKernels, RunOnTheCurrentStreamAndDevice) {
  Kernel kernel("fill", R"(extern "C" __global__ void fill(float* out, float value) {
    out[blockIdx.x * blockDim.x + threadIdx.x] = value;
  })");
  const auto out = at::zeros({512}, at::TensorOptions(gpu_));
  ASSERT_TRUE(kernel.runs_on(gpu_));
  kernel.launch(gpu_, {2, 256}, {.writes = {out}}, out.mutable_data_ptr<float>(), 3.0F);
  EXPECT_EQ(out.sum().item<float>(), 3 * 512);
}

}  // namespace
}  // namespace convoy::gpu
