#include <fmt/format.h>

#include <chrono>
#include <cstdlib>
#include <map>
#include <regex>

#include "convoy/base/text.h"
#include "tests/cli/command_testing.h"

// What happens when a rank fails in every way, in every phase of a run: everyone is down within
// seconds, the right rank is named, nothing is left behind, and the run goes on to the same bits.
namespace convoy {
namespace {

struct Cell {
  std::string kind;
  std::string phase;
  std::string backend;
  int ranks;
  int rank;              ///< the one that fails
  int zero = 0;          ///< stage of ZeRO
  bool offload = false;  ///< all that the stage allows, to the disk
  int stages = 1;        ///< of a pipeline
  int tensor = 1;        ///< ranks that share out layers

  std::string text() const {
    return fmt::format("{}@{}:{}:4 over {} on {} ranks, zero {}{}, {} stages, {} tensor ranks",
                       kind, rank, phase, backend, ranks, zero, offload ? ", offloaded" : "",
                       stages, tensor);
  }
  bool in_layer() const { return phase.starts_with("layer"); }
  /// Who is told to have computed what is not finite: in a layer all of them.
  std::string spoilt() const {
    if (!in_layer() && (tensor == 1 || phase == "reduce")) return fmt::format("rank {}", rank);
    std::string out = "tensor ranks";
    for (int i = 0; i < tensor; ++i) {
      out += fmt::format("{} {}", i == 0 ? "" : ",", rank / tensor * tensor + i);
    }
    return out;
  }
  /// In this phase backwards are in halves.
  bool halves() const { return phase == "backward_weight"; }
  /// Others notice only when their patience is over.
  bool waits() const {
    return kind == "sigstop" || kind == "slow" || (kind == "mismatch" && backend == "gloo");
  }
};

constexpr int kTimeout = 3;  // seconds that a rank waits for another

class Faults : public CommandTest {
 protected:
  void SetUp() override {
    CommandTest::SetUp();
    make_sessions(400);
  }

  std::string command(const Cell& cell, const std::string& folder) const {
    return fmt::format(
               "launch -n {} train{}--max_steps 6 --eval_strategy steps --eval_steps 2 "
               "--save_steps 2 "
               "--ddp_timeout {} --backend {} --zero {} --bucket_cap_mb 0 --output_dir {} "
               "--pipeline_parallel_size {} --tensor_parallel_size {} ",
               cell.ranks, kTiny, kTimeout, cell.backend, cell.zero, folder, cell.stages,
               cell.tensor) +
           (cell.halves() ? "--pipeline_schedule zero_bubble --pipeline_virtual_stages 1 "
                            "--gradient_accumulation_steps 4 "
                          : "") +
           offload_options(cell);
  }

  static std::string offload_options(const Cell& cell) {
    if (!cell.offload) return "";
    std::string out = "--offload_dir tmp --offload_optimizer disk ";
    if (cell.zero >= 2) out += "--offload_gradients disk ";
    if (cell.zero >= 3) out += "--offload_parameters disk ";
    return out;
  }

  /// The loss of a run that nothing disturbs.
  double calm_loss(Cell cell) {
    cell.offload = false;
    const auto folder = fmt::format("calm-{}-{}-{}-{}{}", cell.backend, cell.ranks, cell.stages,
                                    cell.tensor, cell.halves() ? "-halves" : "");
    if (!fs::exists(folder_ / folder)) {
      EXPECT_EQ(run(command(cell, folder)), 0) << output_;
    }
    return json(folder + "/train_results.json")["train_final_loss"];
  }

  /// Processes that work in the test's folder.
  int num_processes() const {
    int count = 0;
    for (const auto& entry : fs::directory_iterator("/proc")) {
      std::error_code gone;
      count += fs::read_symlink(entry.path() / "cwd", gone) == folder_;
    }
    return count;
  }

  struct End {
    double seconds;      ///< until all ranks and the launcher were down
    std::string reason;  ///< in the words of the report
  };

  /// Problems become test failures.
  End try_cell(const Cell& cell) {
    SCOPED_TRACE(cell.text());
    const double calm = calm_loss(cell);
    fs::create_directory(folder_ / "tmp");
    const auto begin = std::chrono::steady_clock::now();
    const int code = shell(fmt::format("CONVOY_FAULT={}@{}:{}:4 timeout 60 $convoy {}", cell.kind,
                                       cell.rank, cell.phase, command(cell, "out")));
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
    EXPECT_NE(code, 0) << output_;
    EXPECT_LT(took.count(), cell.waits() ? 10 + kTimeout : 10) << output_;
    std::smatch found;
    std::regex_search(output_, found, std::regex(R"(\[launch\] rank (\d+) [^\n]*)"));
    const std::string said = output_;
    const std::string named = found.empty() ? "none" : found[1].str();
    if (cell.kind == "mismatch") {
      // Who is wrong no one can know: the report says what each of them was in.
      EXPECT_NE(named, "none") << said;
    } else if (cell.kind == "nan") {
      EXPECT_NE(said.find(fmt::format("not finite on {}", cell.spoilt())), std::string::npos)
          << said;
    } else {
      EXPECT_EQ(named, std::to_string(cell.rank)) << said;
    }
    if (cell.in_layer() && cell.kind != "nan") {
      const std::regex collective(R"(`(wait for )?[a-z' ]+ of [^ `]+\.[^ `]+` of step 4)");
      EXPECT_TRUE(std::regex_search(said, collective)) << "no weight is named: " << said;
    }
    EXPECT_EQ(num_processes(), 0) << said;
    EXPECT_TRUE(fs::is_empty(folder_ / "tmp")) << "the launcher left files";

    const bool saved = fs::exists(folder_ / "out/checkpoint-2");
    const int again = run(command(cell, "out") +
                          (saved ? "--resume_from_checkpoint latest" : "--overwrite_output_dir"));
    EXPECT_EQ(again, 0) << output_;
    const double loss =
        again == 0 ? json("out/train_results.json")["train_final_loss"].get<double>() : 0;
    EXPECT_EQ(loss, calm);
    for (const auto& entry : fs::directory_iterator(folder_ / "out")) {
      const auto name = entry.path().filename().string();
      EXPECT_EQ(name.find(".tmp"), std::string::npos) << name << " is left";
    }
    fs::remove_all(folder_ / "out");
    const auto why = said.find("  why ");
    const auto reason = why == std::string::npos
                            ? std::string("?")
                            : trim(said.substr(why + 5, said.find('\n', why) - why - 5));
    return {took.count(), reason};
  }
};

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
}

TEST_F(Faults, TheEndOfAChainOfStagesThatWaitIsNamed) {
  const auto train = fmt::format(
      "train{}--max_steps 6 --n_layer 4 --nproc 3 --ddp_timeout 2 "
      "--pipeline_parallel_size 3 --gradient_accumulation_steps 4 ",
      kTiny);
  EXPECT_NE(shell("CONVOY_FAULT=sigstop@2:forward:3 timeout 60 $convoy " + train), 0);
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

/// Some ten minutes: ./dev test --all. With CONVOY_UPDATE_DOCS it writes docs/faults_matrix.md.
TEST_F(Faults, DISABLED_TheWholeMatrix) {
  std::string table =
      "# Every fault in every phase\n\nWritten by `CONVOY_UPDATE_DOCS=1 build/tests/test_cli "
      "--gtest_also_run_disabled_tests --gtest_filter=Faults.DISABLED_TheWholeMatrix`;\nwhat is "
      "checked in each cell stands in [faults.md](faults.md). The last rank fails; what it says is "
      "of two ranks.\n\n"
      "| fault | phase | shm, 2 ranks | shm, 4 | Gloo, 2 | Gloo, 4 | what the report says |\n"
      "|---|---|--:|--:|--:|--:|---|\n";
  for (const char* kind :
       {"sigkill", "sigstop", "exception", "exit", "oom", "nan", "slow", "mismatch", "nodata"}) {
    for (const char* phase : {"start", "forward", "backward", "reduce", "evaluation", "saving"}) {
      table += fmt::format("| {} | {} |", kind, phase);
      std::map<std::string, std::string> reasons;
      for (const char* backend : {"shm", "gloo"}) {
        for (const int ranks : {2, 4}) {
          const auto end = try_cell({kind, phase, backend, ranks, ranks - 1});
          table += fmt::format(" {:.1f} s |", end.seconds);
          reasons.try_emplace(backend, end.reason);
        }
      }
      table += " " + reasons["shm"];
      if (reasons["gloo"] != reasons["shm"]) table += ". Gloo: " + reasons["gloo"];
      table += " |\n";
    }
  }
  if (std::getenv("CONVOY_UPDATE_DOCS")) {
    write_file(fs::path(CONVOY_SOURCE_DIR) / "docs/faults_matrix.md", table);
  }
}

/// Some minutes: ./dev test --all.
TEST_F(Faults, DISABLED_TheMatrixOfStages) {
  for (const char* kind :
       {"sigkill", "sigstop", "exception", "exit", "oom", "nan", "slow", "mismatch"}) {
    for (const std::string phase :
         {"forward", "backward", "backward_weight", "send", "receive", "reduce", "saving"}) {
      // What a stage spoils of its weights or sends, others see first.
      if (kind == std::string("nan") &&
          (phase == "forward" || phase == "send" || phase == "receive" || phase == "saving")) {
        continue;
      }
      for (const char* backend : {"shm", "gloo"}) {
        try_cell(
            {.kind = kind, .phase = phase, .backend = backend, .ranks = 4, .rank = 3, .stages = 2});
      }
    }
  }
}

/// Some minutes: ./dev test --all.
TEST_F(Faults, DISABLED_TheMatrixOfLayers) {
  for (const char* kind :
       {"sigkill", "sigstop", "exception", "exit", "oom", "nan", "slow", "mismatch"}) {
    for (const char* phase : {"layer", "layer_backward"}) {
      for (const char* backend : {"shm", "gloo"}) {
        for (const int ranks : {2, 4}) {
          try_cell({.kind = kind,
                    .phase = phase,
                    .backend = backend,
                    .ranks = ranks,
                    .rank = ranks - 1,
                    .tensor = 2});
        }
      }
      // Pipeline x data x tensor.
      try_cell({.kind = kind,
                .phase = phase,
                .backend = "shm",
                .ranks = 8,
                .rank = 7,
                .zero = 1,
                .stages = 2,
                .tensor = 2});
    }
  }
}

/// Some minutes: ./dev test --all.
TEST_F(Faults, DISABLED_TheMatrixWhereRanksKeepShards) {
  for (const int zero : {2, 3}) {
    for (const bool offload : {false, true}) {
      for (const char* kind : {"sigkill", "sigstop", "exception", "exit", "oom", "nan", "slow"}) {
        for (const char* phase :
             {"forward", "backward", "reduce", "gather", "update", "offload", "saving"}) {
          if (!offload && phase == std::string("offload")) continue;
          // Weights that are shared out are everybody's: whose they were nobody can tell.
          const std::string in = phase;
          if (kind == std::string("nan") && in != "backward" && in != "reduce") continue;
          try_cell({kind, phase, "shm", 2, 1, zero, offload});
        }
      }
    }
  }
}

}  // namespace
}  // namespace convoy
