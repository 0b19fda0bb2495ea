// Each check of the simulated device proves that it can fail.
#include <ATen/cuda/jiterator.h>
#include <torch/torch.h>

#include <cmath>
#include <cstdlib>

#include "tests/fake_gpu/fake_gpu_testing.h"

namespace convoy::fake_gpu {
namespace {

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

#define EXPECT_TELLS(text, part) EXPECT_TRUE(contains(text, part)) << text

/// A function of its own, so that it is a site with a name.
[[gnu::noinline]] void wait_for(const c10::Event& event, c10::Stream stream) {
  event.block(stream);
  asm volatile("");  // no tail call
}

TEST_F(FakeGpu, ComputesWhatTheHostComputes) {
  const auto a = at::randn({7, 5}), b = at::randn({5, 3});
  EXPECT_TRUE(at::equal(at::mm(a.to(gpu_), b.to(gpu_)).cpu(), at::mm(a, b)));
  EXPECT_EQ(torch::cuda::device_count(), static_cast<size_t>(kDevices));
}

TEST_F(FakeGpu, AMissingWaitBetweenStreamsIsToldWithBothOperations) {
  FAKE_GPU(fake_gpu_label)(3, "forward block 1");
  const auto x = at::ones({16}, here_);
  FAKE_GPU(fake_gpu_label)(3, "backward block 1");
  const auto text = misuse([&] {
    const c10::StreamGuard side(pool());
    return x + 1;
  });
  EXPECT_TELLS(text, "nothing orders 'aten::add' (step 3, backward block 1) on cuda:0 stream");
  EXPECT_TELLS(text, "after 'aten::fill_' (step 3, forward block 1) on cuda:0 stream 0");
  EXPECT_TELLS(text, "it reads what that wrote, 64 bytes at 0 of an allocation of 64 bytes");
}

TEST_F(FakeGpu, AWriteIsOrderedAfterReadsToo) {
  auto x = at::ones({16}, here_);
  const auto side = pool();
  record(current()).block(side);
  {
    const c10::StreamGuard there(side);
    at::neg(x);
  }
  EXPECT_TELLS(misuse([&] { x.zero_(); }), "it writes what that reads");
}

TEST_F(FakeGpu, AnEventOrders) {
  auto x = at::ones({16}, here_);
  const auto side = pool();
  wait_for(record(current()), side);
  {
    const c10::StreamGuard there(side);
    x.add_(1);
  }
  record(side).block(current());
  EXPECT_EQ(misuse([&] { x.add_(1); }), "");
}

TEST_F(FakeGpu, HostOrdersByWaiting) {
  auto x = at::ones({16}, here_);
  current().synchronize();
  const auto side = pool();
  const c10::StreamGuard there(side);
  EXPECT_EQ(misuse([&] { x.add_(1); }), "");
}

TEST_F(FakeGpu, ASiteIsIgnoredByName) {
  FAKE_GPU(fake_gpu_set)("ignore=block convoy::fake_gpu::wait_for");
  auto x = at::ones({16}, here_);
  const auto side = pool();
  wait_for(record(current()), side);
  const c10::StreamGuard there(side);
  EXPECT_TELLS(misuse([&] { x.add_(1); }), "nothing orders");
}

TEST_F(FakeGpu, DisjointPartsOfABlockDoNotClash) {
  auto x = at::ones({1024}, here_);
  const auto side = pool();
  record(current()).block(side);
  EXPECT_EQ(misuse([&] {
              x.narrow(0, 0, 512).add_(1);
              const c10::StreamGuard there(side);
              x.narrow(0, 512, 512).add_(1);
            }),
            "");
  EXPECT_TELLS(misuse([&] {
                 const c10::StreamGuard there(side);
                 x.narrow(0, 511, 2).add_(1);
               }),
               "nothing orders");
}

TEST_F(FakeGpu, MemoryGivenAwayTooEarlyIsTold) {
  const auto side = pool();
  auto x = at::ones({1000}, here_);
  record(current()).block(side);
  {
    const c10::StreamGuard there(side);
    at::neg(x);
  }
  const void* place = x.data_ptr();
  x.reset();
  const auto text = misuse([&] {
    const auto y = at::ones({1000}, here_);
    EXPECT_EQ(y.data_ptr(), place);
  });
  EXPECT_TELLS(text, "the memory was given away again before that was done");
}

TEST_F(FakeGpu, MemoryOfAStreamIsGivenAwayOnItAlone) {
  const auto a = pool(), b = pool();
  const auto place_on = [&](c10::Stream stream) {
    const c10::StreamGuard there(stream);
    return at::ones({1000}, here_).data_ptr();
  };
  const void* place = place_on(a);
  EXPECT_NE(place_on(b), place);
  EXPECT_EQ(place_on(a), place);
  EXPECT_EQ(misuse([] {}), "");
}

TEST_F(FakeGpu, RecordStreamKeepsMemoryUntilTheStreamIsDone) {
  const auto side = pool();
  auto x = at::ones({1000}, here_);
  record(current()).block(side);
  {
    const c10::StreamGuard there(side);
    at::neg(x);
  }
  x.record_stream(side);
  const void* place = x.data_ptr();
  x.reset();
  EXPECT_NE(at::ones({1000}, here_).data_ptr(), place);
  side.synchronize();
  EXPECT_EQ(misuse([&] { at::ones({1000}, here_); }), "");
}

TEST_F(FakeGpu, FreshAndFreedMemoryIsNotANumber) {
  EXPECT_TRUE(std::isnan(at::empty({4}, here_).cpu()[0].item<float>()));
  const void* freed = at::ones({4}, here_).const_data_ptr();
  const auto again = at::empty({4}, here_);
  EXPECT_EQ(again.const_data_ptr(), freed);
  EXPECT_TRUE(std::isnan(again.cpu()[3].item<float>()));
}

TEST_F(FakeGpu, TouchOfTheHostNamesTheAllocation) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        const auto x = at::ones({6}, here_);
        std::printf("%f", *static_cast<float*>(x.data_ptr()));
      },
      testing::KilledBySignal(SIGSEGV),
      "the host touched memory of cuda:0: byte 0 of an allocation of 24 bytes made for "
      "'aten::fill_'");
}

TEST_F(FakeGpu, ACopyBesideTheHostLandsWhenTheHostWaited) {
  const auto x = at::ones({8}, here_);
  auto host = pinned(8);
  host.copy_(x, /*non_blocking=*/true);
  EXPECT_TRUE(std::isnan(host[0].item<float>()));
  current().synchronize();
  EXPECT_EQ(host[0].item<float>(), 1);
}

TEST_F(FakeGpu, APinnedSourceThatChangesTooEarlyIsTold) {
  auto host = pinned(8);
  host.fill_(1);
  const auto x = host.to(gpu_, /*non_blocking=*/true);
  host.fill_(2);
  EXPECT_TELLS(misuse([&] { current().synchronize(); }),
               "changed before the copy was known to be done");
}

TEST_F(FakeGpu, APinnedSourceMayChangeAfterTheCopy) {
  auto host = pinned(8);
  host.fill_(1);
  const auto x = host.to(gpu_, /*non_blocking=*/true);
  current().synchronize();
  host.fill_(2);
  EXPECT_EQ(misuse([&] { current().synchronize(); }), "");
  EXPECT_EQ(x.sum().item<float>(), 8);
}

TEST_F(FakeGpu, PinnedMemoryGoesDownAndUpInTheOrderOfAStream) {
  auto host = pinned(8);
  host.copy_(at::full({8}, 5.0, here_), /*non_blocking=*/true);
  EXPECT_EQ(host.to(gpu_, /*non_blocking=*/true).sum().item<float>(), 40);
}

TEST_F(FakeGpu, MemoryThatTheRuntimePinnedStaysUntilItsCopiesAreDone) {
  const auto pin = library<int(void*, size_t, unsigned)>("cudaHostRegister", nullptr);
  const auto unpin = library<int(void*)>("cudaHostUnregister", nullptr);
  ASSERT_NE(pin, nullptr);
  alignas(64) static std::array<float, 1024> memory{};
  ASSERT_EQ(pin(memory.data(), sizeof memory, 1), 0);
  auto host = at::from_blob(memory.data(), {1024}, at::kFloat);
  EXPECT_TRUE(host.is_pinned());
  host.copy_(at::ones({1024}, here_), /*non_blocking=*/true);
  EXPECT_TELLS(misuse([&] { unpin(memory.data()); }), "pinned memory is given back while");
}

TEST_F(FakeGpu, ABlockingCopyIsCounted) {
  const auto x = at::ones({8}, here_);
  std::array<int64_t, 10> before{}, after{};
  FAKE_GPU(fake_gpu_counts)(before.data());
  x.cpu();
  pinned(8).fill_(1).to(gpu_, /*non_blocking=*/true);
  FAKE_GPU(fake_gpu_counts)(after.data());
  EXPECT_EQ(after[3] - before[3], 1);  // blocking copies
  EXPECT_EQ(after[4] - before[4], 1);  // to the device
  EXPECT_EQ(after[6] - before[6], 1);  // to the host
}

TEST_F(FakeGpu, AskingForANumberIsCounted) {
  const auto x = at::ones({8}, here_);
  std::array<int64_t, 10> before{}, after{};
  FAKE_GPU(fake_gpu_counts)(before.data());
  const auto one = x[3];
  one.item<float>();
  FAKE_GPU(fake_gpu_counts)(after.data());
  EXPECT_EQ(after[2] - before[2], 1);  // waits
  EXPECT_EQ(after[3] - before[3], 1);  // blocking copies
  EXPECT_EQ(after[6] - before[6], 1);  // to the host
  EXPECT_EQ(after[7] - before[7], 4);  // bytes
}

TEST_F(FakeGpu, IndexingByAMaskMakesTheHostWait) {
  const auto x = at::arange(6, here_);
  const auto mask = x > 2;
  const auto places = at::arange(2, here_.dtype(at::kLong));
  const auto waits = [](const std::function<void()>& work) {
    std::array<int64_t, 10> before{}, after{};
    FAKE_GPU(fake_gpu_counts)(before.data());
    work();
    FAKE_GPU(fake_gpu_counts)(after.data());
    return std::pair{after[2] - before[2], after[3] - before[3]};  // of these, blocking copies
  };
  using Pair = std::pair<int64_t, int64_t>;
  EXPECT_EQ(waits([&] { EXPECT_EQ(x.index({mask}).numel(), 3); }), (Pair{1, 0}));
  EXPECT_EQ(waits([&] { x.index_put_({mask}, x.narrow(0, 0, 3)); }), (Pair{1, 0}));
  EXPECT_EQ(waits([&] { x.index({places}); }), (Pair{0, 0}));
  EXPECT_EQ(waits([&] { x.index({at::arange(2)}); }), (Pair{1, 1})) << "places of the host";
  EXPECT_EQ(waits([&] { x.index_put_({at::arange(2)}, x.narrow(0, 0, 2)); }), (Pair{1, 1}));
  // Torch fills these without a look.
  EXPECT_EQ(waits([&] { x.index_put_({mask}, at::scalar_tensor(7.F)); }), (Pair{0, 0}));
  EXPECT_EQ(waits([&] { x.masked_fill_(mask, 1); }), (Pair{0, 0}));
  // The wait orders what comes after it.
  const auto side = pool();
  EXPECT_EQ(misuse([&] {
              x.index({mask});
              const c10::StreamGuard there(side);
              at::neg(mask.to(at::kFloat));
            }),
            "");
}

TEST_F(FakeGpu, ThrowsTorchsOutOfMemoryError) {
  try {
    at::empty({int64_t{1} << 30}, here_);
    FAIL();
  } catch (const c10::OutOfMemoryError& error) {
    EXPECT_TELLS(std::string(error.what()),
                 "CUDA out of memory. Tried to allocate 4.00 GiB. GPU 0 has a total capacity of");
  }
}

TEST_F(FakeGpu, TensorsOfTwoDevicesDoNotMix) {
  const auto x = at::ones({4}, here_), y = at::ones({4}, here_.device(at::Device(at::kCUDA, 1)));
  EXPECT_THROW(x + y, c10::Error);
  EXPECT_THROW(x + at::ones({4}), c10::Error);
  EXPECT_EQ((x + y.to(gpu_)).sum().item<float>(), 8);
  EXPECT_THROW(at::ones({4}, here_.device(at::Device(at::kCUDA, kDevices))), c10::Error);
}

TEST_F(FakeGpu, AnEventBelongsToADevice) {
  c10::Event event(c10::kCUDA);
  event.record(current());
  EXPECT_THROW(event.record(guard_.getStream({at::kCUDA, 1})), c10::Error);
}

TEST_F(FakeGpu, HalfPrecisionHasTorchsKernels) {
  const auto x = at::randn({3, 5}, here_).to(at::kHalf);
  EXPECT_EQ(at::_softmax(x, 1, /*half_to_float=*/true).scalar_type(), at::kFloat);
  const auto sums = at::mm(x, x.t(), at::kFloat);
  EXPECT_EQ(sums.scalar_type(), at::kFloat);
}

TEST_F(FakeGpu, AKernelFromTextRuns) {
  const auto run = library(
      "_ZN2at4cuda22CompileAndLaunchKernelERKNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEES8"
      "_iRKN3c1011SmallVectorINS_6TensorELj6EEERKNSA_INS9_6ScalarELj1EEEb",
      &at::cuda::CompileAndLaunchKernel);
  ASSERT_NE(run, nullptr);
  const auto x = at::arange(4, here_).view({4, 1}), y = at::arange(3, here_);
  const auto out = run("template <typename T> T scaled(T a, T b, int64_t k) { return a * k + b; }",
                       "scaled", 1, {x, y}, {int64_t{10}}, false);
  EXPECT_TRUE(at::equal(out[0], x * 10 + y));
}

std::vector<double> losses(at::Device device) {
  torch::manual_seed(1);
  const auto param = [&](std::vector<int64_t> sizes) {
    return (torch::randn(sizes) * 0.1).to(device).requires_grad_(true);
  };
  std::vector<at::Tensor> params{param({97, 48}), param({144, 48}), param({48, 48}), param({48})};
  const auto ids = torch::randint(97, {3, 17}).to(device);
  std::vector<double> out;
  for (int step = 0; step < 4; ++step) {
    auto h = at::embedding(params[0], ids.narrow(1, 0, 16));
    const auto qkv = at::linear(at::layer_norm(h, {48}, params[3] + 1), params[1])
                         .view({3, 16, 3, 4, 12})
                         .permute({2, 0, 3, 1, 4});
    const auto seen = at::scaled_dot_product_attention(qkv[0], qkv[1], qkv[2], {}, 0.0, true);
    h = h + at::linear(seen.transpose(1, 2).reshape({3, 16, 48}), params[2]);
    const auto loss = at::cross_entropy_loss(at::linear(h, params[0]).view({48, 97}),
                                             ids.narrow(1, 1, 16).reshape({-1}));
    const auto grads = torch::autograd::grad({loss}, params);
    const at::NoGradGuard no_grad;
    for (size_t p = 0; p < params.size(); ++p) params[p].sub_(grads[p], 0.5);
    out.push_back(loss.item<double>());
  }
  return out;
}

TEST_F(FakeGpu, TrainsAsTheHost) {
  const auto here = losses(gpu_), there = losses(at::kCPU);
  for (size_t step = 0; step < here.size(); ++step) EXPECT_NEAR(here[step], there[step], 1e-5);
  EXPECT_EQ(FAKE_GPU(fake_gpu_num_misuses)(), 0);
}

}  // namespace
}  // namespace convoy::fake_gpu

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  const std::string folder = FAKE_GPU_FOLDER;
  const auto place = folder + ":" + std::to_string(convoy::fake_gpu::kDevices);
  ::setenv("CONVOY_FAKE_GPU", place.c_str(), 1);
  ::setenv("FAKE_GPU_OPTIONS", "memory=256M", 1);
  if (::dlopen((folder + "/libtorch_cuda.so").c_str(), RTLD_NOW | RTLD_GLOBAL) == nullptr) {
    std::fprintf(stderr, "%s\n", ::dlerror());
    return 1;
  }
  return RUN_ALL_TESTS();
}
