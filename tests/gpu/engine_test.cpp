#include <ATen/ATen.h>

#include "convoy/comm/nccl/nccl_engine.h"
#include "tests/comm/ranks_testing.h"
#include "tests/gpu/gpu_testing.h"

namespace convoy::comm {
namespace {

using Engines = Gpu;

/// A group of one has no engine, and NCCL takes no two ranks on one GPU: what one GPU can show.
TEST_F(Engines, NcclOpensAndMovesEveryType) {
  std::string why;
  if (!has_nccl(&why)) GTEST_SKIP() << why;
  StoreAddress point;
  point.port = unused_port();
  const auto engine = make_nccl_engine(point, open_store(point), gpu_);
  const std::string label = "test";
  for (const auto dtype : {at::kFloat, at::kBFloat16, at::kLong}) {
    const auto options = at::TensorOptions().dtype(dtype).device(gpu_);
    auto in = at::arange(1000, options), out = at::zeros({1000}, options);
    const auto expected = in.cpu();
    engine->all_reduce(in, ReduceOp::Sum, {label})->wait();
    EXPECT_TRUE(at::equal(in.cpu(), expected));
    engine->all_gather(out, in, {1000}, {label})->wait();
    EXPECT_TRUE(at::equal(out.cpu(), expected));
    out.zero_();
    engine->reduce_scatter(out, in, {1000}, ReduceOp::Max, {label})->wait();
    EXPECT_TRUE(at::equal(out.cpu(), expected));
    out.zero_();
    engine->all_to_all(out, {1000}, in, {1000}, {label})->wait();
    EXPECT_TRUE(at::equal(out.cpu(), expected));
    engine->broadcast(out, 0, {label})->wait();
    EXPECT_TRUE(at::equal(out.cpu(), expected));
  }
  auto host = at::ones({3});
  engine->all_reduce(host, ReduceOp::Sum, {label})->wait();  // by way of the GPU
  EXPECT_TRUE(at::equal(host, at::ones({3})));
}

TEST_F(Engines, GlooTakesTensorsOfAGpu) {
  run_gloo_ranks(2, [&](Group group) {
    std::vector<at::Tensor> buckets;
    std::vector<Group::Handle> handles;
    for (int64_t i = 0; i < 5; ++i) {
      buckets.push_back(at::full({100000 + i}, group.rank() + 1.0, at::device(gpu_)));
      handles.push_back(group.start_all_reduce(buckets.back(), ReduceOp::Sum, "bucket"));
    }
    auto word = at::ones({1});
    group.all_reduce(word, ReduceOp::Sum, "word");
    for (size_t i = 0; i < handles.size(); ++i) {
      handles[i].wait();
      EXPECT_TRUE((buckets[i] == 3).all().item<bool>());
    }
    EXPECT_EQ(word.item<float>(), 2);
  });
}

}  // namespace
}  // namespace convoy::comm
