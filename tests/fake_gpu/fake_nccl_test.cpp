// The stand-in for NCCL: ranks as threads of this process.
#include <torch/csrc/distributed/c10d/HashStore.hpp>

#include <barrier>
#include <cmath>
#include <functional>
#include <thread>

#include "convoy/comm/nccl/plugin.h"
#include "tests/fake_gpu/fake_gpu_testing.h"

namespace convoy::fake_gpu {
namespace {

class FakeNccl : public FakeGpu {
 protected:
  static comm::MakeNcclBackend make() {
    const std::string file = FAKE_GPU_FOLDER "/libconvoy_nccl.so";
    void* opened = ::dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
    EXPECT_NE(opened, nullptr) << ::dlerror();
    return reinterpret_cast<comm::MakeNcclBackend>(::dlsym(opened, comm::kMakeNcclBackend));
  }

  using Rank = std::function<void(c10d::Backend&, at::Device)>;

  /// Rank r computes on device r.
  static void run(const Rank& work, std::chrono::milliseconds timeout = std::chrono::seconds(80),
                  int ranks = 2) {
    const auto store = c10::make_intrusive<c10d::HashStore>();
    std::vector<std::thread> threads;
    for (int rank = 0; rank < ranks; ++rank) {
      threads.emplace_back([&, rank] {
        c10::intrusive_ptr<c10d::Backend> backend;
        make()({store, rank, ranks, timeout}, backend);
        work(*backend, at::Device(at::kCUDA, static_cast<c10::DeviceIndex>(rank)));
      });
    }
    for (auto& thread : threads) thread.join();
  }
};

at::Tensor ones(at::Device device, int64_t count) {
  return at::full({count}, 1.0 + device.index(), at::device(device).dtype(at::kFloat));
}

/// Makes the communicator of all.
void connect(c10d::Backend& nccl, at::Device device) {
  std::vector<at::Tensor> word{ones(device, 1)};
  nccl.allreduce(word)->wait();
}

TEST_F(FakeNccl, SumsGathersAndScatters) {
  run([](c10d::Backend& nccl, at::Device device) {
    std::vector<at::Tensor> x{ones(device, 4)};
    nccl.allreduce(x)->wait();
    EXPECT_EQ(x[0].sum().item<float>(), 12);
    auto own = ones(device, 2), all = at::empty({4}, own.options());
    nccl._allgather_base(all, own)->wait();
    EXPECT_EQ(all.sum().item<float>(), 6);
    auto part = at::empty({2}, own.options());
    nccl._reduce_scatter_base(part, all)->wait();
    EXPECT_EQ(part.sum().item<float>(), device.index() == 0 ? 4 : 8);
  });
  EXPECT_EQ(FAKE_GPU(fake_gpu_first_misuse)(), std::string());
}

TEST_F(FakeNccl, ThreeRanksDoTheSame) {
  constexpr int kRanks = 3;
  const auto work = [](c10d::Backend& nccl, at::Device device) {
    const auto rank = static_cast<int>(device.index());
    std::vector<at::Tensor> x{ones(device, 4)};
    nccl.allreduce(x)->wait();
    EXPECT_EQ(x[0].sum().item<float>(), 24);
    c10d::AllreduceOptions most;
    most.reduceOp = c10d::ReduceOp::MAX;
    x = {ones(device, 4)};
    nccl.allreduce(x, most)->wait();
    EXPECT_EQ(x[0][0].item<float>(), 3);
    auto own = ones(device, 2), all = at::empty({2 * kRanks}, own.options());
    nccl._allgather_base(all, own)->wait();
    EXPECT_EQ(all.sum().item<float>(), 12);
    auto part = at::empty({2}, own.options());
    nccl._reduce_scatter_base(part, all)->wait();
    EXPECT_EQ(part[0].item<float>(), 3.0f * static_cast<float>(1 + rank));
    c10d::BroadcastOptions from_last;
    from_last.rootRank = kRanks - 1;
    x = {ones(device, 4)};
    nccl.broadcast(x, from_last)->wait();
    EXPECT_EQ(x[0][0].item<float>(), 3);
    // Around the ring, with as many elements as the sender's rank, and one.
    const int next = (rank + 1) % kRanks, last = (rank + kRanks - 1) % kRanks;
    std::vector<at::Tensor> sent{ones(device, rank + 1)}, received{ones(device, last + 1)};
    nccl.startCoalescing();
    nccl.send(sent, next, 0);
    nccl.recv(received, last, 0);
    nccl.endCoalescing()->wait();
    EXPECT_EQ(received[0].sum().item<float>(), static_cast<float>((last + 1) * (last + 1)));
    // Parts of other sizes: rank r gets r + 1 elements of each.
    std::vector<int64_t> to{1, 2, 3}, from(kRanks, rank + 1);
    auto in = ones(device, 6), out = at::empty({kRanks * (rank + 1)}, in.options());
    nccl.alltoall_base(out, in, from, to)->wait();
    EXPECT_EQ(out.sum().item<float>(), 6.0f * static_cast<float>(rank + 1));
  };
  run(work, std::chrono::seconds(80), kRanks);
  EXPECT_EQ(FAKE_GPU(fake_gpu_first_misuse)(), std::string());
}

TEST_F(FakeNccl, MessagesPassInTheOrderOfCalls) {
  run([](c10d::Backend& nccl, at::Device device) {
    connect(nccl, device);
    std::vector<at::Tensor> first{ones(device, 4)}, second{ones(device, 3) * 10};
    if (device.index() == 0) {
      nccl.send(first, 1, 0)->wait();
      nccl.send(second, 1, 0)->wait();
    } else {
      nccl.recv(first, 0, 0)->wait();
      nccl.recv(second, 0, 0)->wait();
      EXPECT_EQ(first[0].sum().item<float>(), 4);
      EXPECT_EQ(second[0].sum().item<float>(), 30);
    }
    std::vector<at::Tensor> sent{ones(device, 2)}, received{at::empty({2}, sent[0].options())};
    nccl.startCoalescing();
    nccl.send(sent, 1 - device.index(), 0);
    nccl.recv(received, 1 - device.index(), 0);
    nccl.endCoalescing()->wait();
    EXPECT_EQ(received[0][0].item<float>(), 2.0f - static_cast<float>(device.index()));
  });
}

TEST_F(FakeNccl, AMessageBeforeTheGroupHasItsCommunicatorIsTold) {
  FAKE_GPU(fake_gpu_set)("mode=count");
  run([](c10d::Backend& nccl, at::Device device) {
    std::vector<at::Tensor> x{ones(device, 4)};
    device.index() == 0 ? nccl.send(x, 1, 0)->wait() : nccl.recv(x, 0, 0)->wait();
    EXPECT_EQ(x[0].sum().item<float>(), 4);
  });
  const std::string text = FAKE_GPU(fake_gpu_first_misuse)();
  EXPECT_NE(text.find("before a collective made the communicator of its group of 2"),
            std::string::npos)
      << text;
  EXPECT_EQ(FAKE_GPU(fake_gpu_num_misuses)(), 2);
}

TEST_F(FakeNccl, ACommunicatorThatIsMadeInAStepIsTold) {
  FAKE_GPU(fake_gpu_set)("mode=count");
  std::barrier together(2);
  run([&](c10d::Backend& nccl, at::Device device) {
    connect(nccl, device);
    together.arrive_and_wait();
    FAKE_GPU(fake_gpu_label)(2, "reduce bucket 0");
    connect(nccl, device);  // it is there
    EXPECT_EQ(FAKE_GPU(fake_gpu_num_misuses)(), 0);
    together.arrive_and_wait();
    std::vector<at::Tensor> x{ones(device, 4)};  // two ranks make one of their own
    device.index() == 0 ? nccl.send(x, 1, 0)->wait() : nccl.recv(x, 0, 0)->wait();
  });
  const std::string text = FAKE_GPU(fake_gpu_first_misuse)();
  EXPECT_NE(text.find("makes a communicator at 'its first use' (step 2, reduce bucket 0), of ranks "
                      "0:1"),
            std::string::npos)
      << text;
  EXPECT_EQ(FAKE_GPU(fake_gpu_num_misuses)(), 2);
}

TEST_F(FakeNccl, AResultThatNobodyWaitedForIsTold) {
  FAKE_GPU(fake_gpu_set)("mode=count");
  run([](c10d::Backend& nccl, at::Device device) {
    std::vector<at::Tensor> x{ones(device, 4)};
    const auto work = nccl.allreduce(x);
    const auto y = x[0] + 1;
    work->wait();
    EXPECT_EQ(x[0].sum().item<float>(), 12);
  });
  const std::string text = FAKE_GPU(fake_gpu_first_misuse)();
  EXPECT_NE(text.find("nothing orders 'aten::add'"), std::string::npos) << text;
  EXPECT_NE(text.find("after 'nccl all_reduce'"), std::string::npos) << text;
}

TEST_F(FakeNccl, CollectiveThatARankNeverJoinsNeverEnds) {
  run(
      [](c10d::Backend& nccl, at::Device device) {
        std::vector<at::Tensor> x{ones(device, 4)};
        nccl.allreduce(x)->wait();
        if (device.index() == 1) return;
        const auto work = nccl.allreduce(x);
        work->wait();  // returns: only the stream waits on a GPU
        EXPECT_FALSE(work->isCompleted());
        EXPECT_TRUE(std::isnan(x[0][0].item<float>()));
      },
      std::chrono::milliseconds(61000));
}

}  // namespace
}  // namespace convoy::fake_gpu
