#include "tests/cli/faults_testing.h"

// A few faults of every kind; tests/cli/faults_matrix_test.cpp has all of them.
namespace convoy {
namespace {

TEST_F(Faults, AFewOfEveryKind) {
  for (const Cell& cell :
       {Cell{"sigkill", "forward", "shm", 2, 1}, Cell{"sigkill", "reduce", "gloo", 2, 0},
        Cell{"sigkill", "saving", "shm", 2, 0}, Cell{"sigstop", "backward", "shm", 2, 1},
        Cell{"exception", "backward", "shm", 4, 3}, Cell{"exit", "start", "gloo", 2, 1},
        Cell{"oom", "evaluation", "shm", 2, 1}, Cell{"nan", "reduce", "shm", 2, 1},
        Cell{"nan", "evaluation", "gloo", 2, 1}, Cell{"nan", "saving", "shm", 2, 0},
        Cell{"slow", "reduce", "gloo", 2, 1}, Cell{"mismatch", "saving", "shm", 2, 1},
        Cell{"nodata", "forward", "shm", 2, 1}}) {
    try_cell(cell);
  }
}

TEST_F(Faults, AFewWhereRanksKeepShards) {
  for (const Cell& cell :
       {Cell{"sigkill", "gather", "shm", 2, 1, 3}, Cell{"sigkill", "update", "gloo", 2, 0, 2},
        Cell{"exception", "gather", "shm", 4, 3, 1}, Cell{"oom", "update", "shm", 2, 1, 3},
        Cell{"nan", "backward", "shm", 2, 1, 2}, Cell{"nan", "reduce", "shm", 2, 0, 3},
        Cell{"sigstop", "gather", "shm", 2, 1, 3}, Cell{"sigkill", "saving", "shm", 2, 1, 3},
        Cell{"exit", "evaluation", "gloo", 2, 1, 3}}) {
    try_cell(cell);
  }
}

TEST_F(Faults, AFewWhereStateIsOffloaded) {
  for (const Cell& cell : {Cell{"sigkill", "offload", "shm", 2, 1, 3, true},
                           Cell{"exception", "offload", "gloo", 2, 0, 0, true},
                           Cell{"sigkill", "saving", "shm", 2, 1, 3, true},
                           Cell{"nan", "backward", "shm", 2, 1, 3, true}}) {
    try_cell(cell);
  }
}

TEST_F(Faults, AFewInAPipeline) {
  const auto cell = [](const char* kind, const char* phase, const char* backend, int ranks,
                       int rank) {
    return Cell{.kind = kind,
                .phase = phase,
                .backend = backend,
                .ranks = ranks,
                .rank = rank,
                .stages = 2};
  };
  for (const Cell& each :
       {cell("sigkill", "send", "shm", 2, 0), cell("sigkill", "send", "gloo", 2, 1),
        cell("exception", "backward", "shm", 4, 3), cell("sigstop", "forward", "shm", 2, 0),
        cell("sigkill", "saving", "shm", 4, 1), cell("exit", "evaluation", "shm", 2, 1),
        cell("nan", "reduce", "shm", 2, 1), cell("mismatch", "send", "shm", 2, 1),
        // The last stage is the one that puts halves off.
        cell("sigkill", "backward_weight", "shm", 2, 1),
        cell("exception", "backward_weight", "gloo", 2, 1),
        cell("sigstop", "backward_weight", "shm", 2, 1),
        cell("nan", "backward_weight", "shm", 2, 1), cell("sigkill", "receive", "shm", 2, 1),
        cell("exception", "receive", "gloo", 2, 0), cell("sigstop", "receive", "shm", 2, 0),
        cell("mismatch", "receive", "shm", 2, 1)}) {
    try_cell(each);
  }
}

// Nothing goes from the first stage to the last one, or back.
TEST_F(Faults, AStageThatIsNoNeighbourIsNamed) {
  const auto train = fmt::format(
      "train{}--max_steps 6 --n_layer 4 --nproc 3 --ddp_timeout 10 --pipeline_parallel_size 3 "
      "--gradient_accumulation_steps 4 ",
      kTiny);
  for (const std::string fault : {"sigkill@2:forward:3", "exception@2:backward:3",
                                  "sigkill@0:receive:3", "exception@0:receive:3"}) {
    SCOPED_TRACE(fault);
    const auto begin = std::chrono::steady_clock::now();
    EXPECT_NE(shell(fmt::format("CONVOY_FAULT={} timeout 60 $convoy {}", fault, train)), 0);
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
    EXPECT_LT(took.count(), 10) << output_;
    expect(fmt::format("rank {} failed first", fault[fault.find('@') + 1]));
    EXPECT_EQ(num_processes(), 0) << output_;
  }
}

TEST_F(Faults, AFewInLayersThatAreSharedOut) {
  const auto cell = [](const char* kind, const char* phase, const char* backend, int ranks,
                       int rank) {
    return Cell{.kind = kind,
                .phase = phase,
                .backend = backend,
                .ranks = ranks,
                .rank = rank,
                .tensor = 2};
  };
  for (const Cell& each :
       {cell("sigkill", "layer", "shm", 2, 1), cell("sigstop", "layer_backward", "shm", 2, 1),
        cell("exception", "layer_backward", "gloo", 2, 0), cell("nan", "layer", "shm", 4, 3),
        cell("nan", "layer_backward", "shm", 2, 1), cell("mismatch", "layer", "shm", 2, 1),
        cell("nan", "reduce", "shm", 2, 1)}) {
    try_cell(each);
  }
  for (auto each : {cell("sigkill", "layer_backward", "shm", 2, 0),
                    cell("nan", "layer_backward", "shm", 2, 1)}) {
    each.tokens = true;
    try_cell(each);
  }
}

TEST_F(Faults, AFewInTheRingOfContextRanksAndInThreeDimensions) {
  const auto cell = [](const char* kind, const char* phase, int ranks, int rank, int stages,
                       int tensor, int context) {
    return Cell{.kind = kind,
                .phase = phase,
                .backend = "shm",
                .ranks = ranks,
                .rank = rank,
                .zero = stages > 1 ? 1 : 0,
                .stages = stages,
                .tensor = tensor,
                .context = context};
  };
  for (const Cell& each :
       {cell("sigkill", "layer", 2, 1, 1, 1, 2), cell("sigstop", "layer_backward", 2, 1, 1, 1, 2),
        cell("nan", "layer", 2, 1, 1, 1, 2), cell("nan", "layer_backward", 2, 1, 1, 1, 2),
        cell("mismatch", "layer", 2, 1, 1, 1, 2),
        // Pipeline x data x tensor; the first stage has the layers.
        cell("sigkill", "layer_backward", 8, 3, 2, 2, 1), cell("sigstop", "layer", 8, 3, 2, 2, 1),
        cell("nan", "layer", 8, 3, 2, 2, 1), cell("mismatch", "layer_backward", 8, 3, 2, 2, 1)}) {
    try_cell(each);
  }
}

TEST_F(Faults, EndOfAChainOfStagesThatWaitIsNamed) {
  const auto train = fmt::format(
      "train{}--max_steps 6 --n_layer 4 --nproc 3 --ddp_timeout 2 "
      "--pipeline_parallel_size 3 --gradient_accumulation_steps 4 ",
      kTiny);
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_NE(shell("CONVOY_FAULT=sigstop@2:forward:3 timeout 60 $convoy " + train), 0);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(10));
  expect("rank 2 failed first");
}

TEST_F(Faults, AGradientOfSeveralMicroBatchesMayBeSpoiled) {
  EXPECT_NE(shell(fmt::format("CONVOY_FAULT=nan@0:reduce:2 $convoy train{}--max_steps 3 "
                              "--gradient_accumulation_steps 2",
                              kTiny)),
            0);
  expect("the gradient of step 2 is not finite on rank 0");
}

TEST_F(Faults, DifferentCollectivesAreBothNamed) {
  const Cell cell{"mismatch", "reduce", "shm", 2, 1};
  try_cell(cell);
  EXPECT_NE(shell("CONVOY_FAULT=mismatch@1:reduce:4 $convoy " + command(cell, "out")), 0);
  expect("the ranks call different collectives");
  expect("'injected fault'");
  expect("'reduce bucket 0'");
}

TEST_F(Faults, AFaultThatMakesNoSenseIsRefused) {
  for (const char* fault :
       {"sigkill", "sigkill@1", "sigkill@1:forward", "kill@1:forward:3", "sigkill@1:sideways:3",
        "sigkill@x:forward:3", "sigkill@1:forward:3", "sigkill@-1:forward:3"}) {
    EXPECT_EQ(shell(fmt::format("CONVOY_FAULT={} $convoy train{}--max_steps 1", fault, kTiny)), 2)
        << output_;
    expect("CONVOY_FAULT = ");
  }
}

}  // namespace
}  // namespace convoy
