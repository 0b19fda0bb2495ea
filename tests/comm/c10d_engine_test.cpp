#include "convoy/comm/c10d_engine.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>
#include <torch/csrc/distributed/c10d/Work.hpp>

#include "convoy/base/error.h"
#include "convoy/comm/group.h"
#include "convoy/comm/nccl/nccl_engine.h"
#include "convoy/comm/pending.h"

namespace convoy::comm {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

using WorkPtr = c10::intrusive_ptr<c10d::Work>;

class FailingWork : public c10d::Work {
 public:
  FailingWork(std::string error, bool ends) : error_(std::move(error)) {
    if (ends) finish();
  }
  bool wait(std::chrono::milliseconds) override {
    if (!error_.empty()) throw std::runtime_error(error_);
    return true;
  }

 private:
  std::string error_;
};

/// Writes down what it is asked for.
class FakeBackend : public c10d::Backend {
 public:
  using Backend::Backend;
  const std::string getBackendName() const override { return "fake"; }
  void startCoalescing() override { calls.emplace_back("begin"); }
  WorkPtr endCoalescing() override { return note("end"); }
  WorkPtr send(std::vector<at::Tensor>&, int to, int) override {
    std::this_thread::sleep_for(delay);
    return note("send to " + std::to_string(to));
  }
  WorkPtr recv(std::vector<at::Tensor>&, int from, int) override {
    std::this_thread::sleep_for(delay);
    return note("receive from " + std::to_string(from));
  }
  WorkPtr allreduce(std::vector<at::Tensor>&, const c10d::AllreduceOptions&) override {
    return note("all-reduce");
  }
  WorkPtr allgather(std::vector<std::vector<at::Tensor>>&, std::vector<at::Tensor>&,
                    const c10d::AllgatherOptions&) override {
    return note("gather a list");
  }
  WorkPtr _allgather_base(at::Tensor&, at::Tensor&, const c10d::AllgatherOptions&) override {
    return note("gather");
  }
  WorkPtr _reduce_scatter_base(at::Tensor&, at::Tensor&,
                               const c10d::ReduceScatterOptions&) override {
    return note("scatter");
  }

  std::vector<std::string> calls;
  std::string error;
  bool ends = true;
  std::chrono::milliseconds delay{0};

 private:
  WorkPtr note(const std::string& call) {
    calls.push_back(call);
    return c10::make_intrusive<FailingWork>(error, ends);
  }
};

/// Rank 1 of 3.
struct Fake {
  explicit Fake(const char* name)
      : group(1, 3, make_c10d_engine(name, backend, {4, 5, 6}, std::chrono::milliseconds(200))) {}
  c10::intrusive_ptr<FakeBackend> backend = c10::make_intrusive<FakeBackend>(1, 3);
  Group group;
};

TEST(C10dEngine, NcclGetsPairsAsOneAndFlatTensors) {
  Fake nccl("nccl");
  auto out = at::zeros({4}), in = at::zeros({4}), all = at::zeros({12});
  nccl.group.start_send_receive(out, 2, in, 0, "ring").wait();
  EXPECT_THAT(nccl.backend->calls, ElementsAre("begin", "send to 2", "receive from 0", "end"));
  nccl.backend->calls.clear();
  nccl.group.all_gather(all, in, "gather");
  nccl.group.reduce_scatter(in, all, ReduceOp::Sum, "scatter");
  EXPECT_THAT(nccl.backend->calls, ElementsAre("gather", "scatter"));

  Fake gloo("gloo");
  gloo.group.start_send_receive(out, 2, in, 0, "ring").wait();
  gloo.group.all_gather(all, in, "gather");
  EXPECT_THAT(gloo.backend->calls, ElementsAre("receive from 0", "send to 2", "gather a list"));
}

TEST(C10dEngine, NcclConnectsPairsAndNamesWhoDoesNotCome) {
  Fake nccl("nccl");
  const Pairs pairs{{0, 1}, {1, 2}, {0, 2}};
  nccl.group.connect_pairs(pairs, "connect stages");
  EXPECT_THAT(nccl.backend->calls,
              ElementsAre("receive from 0", "send to 0", "send to 2", "receive from 2"));
  nccl.backend->ends = false;
  try {
    nccl.group.connect_pairs({{1, 2}}, "connect stages");
    FAIL() << "no error";
  } catch (const CommunicationError& error) {
    EXPECT_THAT(error.what(), HasSubstr("'connect stages: ranks 1 and 2' did not finish within"));
    EXPECT_THAT(error.missing(), ElementsAre(6));
  }
  nccl.backend->ends = true;
  nccl.backend->delay = std::chrono::milliseconds(800);  // as NCCL does until the other comes
  try {
    nccl.group.connect_pairs({{0, 1}}, "connect stages");
    FAIL() << "no error";
  } catch (const CommunicationError& error) {
    EXPECT_THAT(error.what(), HasSubstr("'connect stages: ranks 1 and 0' did not finish within"));
    EXPECT_THAT(error.missing(), ElementsAre(4));
  }
  std::this_thread::sleep_for(3 * nccl.backend->delay);  // what was left behind uses the backend

  Fake gloo("gloo");
  gloo.group.connect_pairs(pairs, "connect stages");
  EXPECT_TRUE(gloo.backend->calls.empty()) << "it has connected all";
}

TEST(C10dEngine, AnErrorSaysItsLabelAndNcclsOwnReason) {
  Fake nccl("nccl");
  nccl.backend->error =
      "[NCCLUtils.hpp:328] NCCL error, unhandled system error\nncclSystemError: a call failed.\n"
      "Last error:\n  Duplicate GPU detected : rank 1 and rank 0\nException raised from a place";
  auto tensor = at::zeros({4});
  try {
    nccl.group.all_reduce(tensor, ReduceOp::Sum, "reduce bucket 3");
    FAIL() << "no error";
  } catch (const CommunicationError& error) {
    EXPECT_THAT(error.what(), HasSubstr("'reduce bucket 3' did not finish: NCCL error, unhandled "
                                        "system error; Duplicate GPU detected : rank 1 and rank 0;"
                                        " another rank may have failed"));
    EXPECT_TRUE(error.missing().empty());
  }
  nccl.backend->error = "WorkNCCL(SeqNum=3, Timeout(ms)=5000) timeout";
  try {
    nccl.group.all_reduce(tensor, ReduceOp::Sum, "reduce bucket 3");
    FAIL() << "no error";
  } catch (const CommunicationError& error) {
    EXPECT_THAT(error.missing(), ElementsAre(4, 6));
  }
}

TEST(C10dEngine, UnfinishedCollectiveOfAGpuFailsTheNextWaitOfTheHost) {
  Fake nccl("nccl");
  auto tensor = at::zeros({4});
  nccl.group.all_reduce(tensor, ReduceOp::Sum, "reduce bucket 0");
  nccl.backend->ends = false;
  nccl.group.all_reduce(tensor, ReduceOp::Sum, "reduce bucket 1");  // a wait of the stream
  nccl.group.all_reduce(tensor, ReduceOp::Sum, "reduce loss");
  try {
    finish_pending();
    FAIL() << "no error";
  } catch (const CommunicationError& error) {
    EXPECT_THAT(error.what(), HasSubstr("'reduce bucket 1' did not finish within 0.2 s"));
    EXPECT_THAT(error.missing(), ElementsAre(4, 6));
  }
  Fake gloo("gloo");
  gloo.backend->ends = false;
  gloo.group.all_reduce(tensor, ReduceOp::Sum, "reduce bucket 0");
  EXPECT_NO_THROW(finish_pending());
}

// The first collective of all ranks, and none of two: else NCCL waits for the others for ever.
TEST(C10dEngine, AGroupIsConnectedByAllOfItsRanksAndWithinTheTimeout) {
  const auto backend = c10::make_intrusive<FakeBackend>(1, 3);
  const auto engine = make_c10d_engine("nccl", backend, {4, 5, 6}, std::chrono::milliseconds(200));
  connect_now(*engine, at::kCPU);
  EXPECT_THAT(backend->calls, ElementsAre("all-reduce"));
  backend->ends = false;
  try {
    connect_now(*engine, at::kCPU);
    FAIL() << "no error";
  } catch (const CommunicationError& error) {
    EXPECT_THAT(error.what(), HasSubstr("'connect the GPUs' did not finish within 0.2 s"));
    EXPECT_THAT(error.missing(), ElementsAre(4, 6));
  }
  EXPECT_NO_THROW(finish_pending()) << "it was told";
}

}  // namespace
}  // namespace convoy::comm
