#pragma once

#include <fmt/format.h>

#include <chrono>
#include <regex>

#include "convoy/base/text.h"
#include "tests/cli/command_testing.h"
#include "tests/cli/ring_of_words.h"

// What happens when a rank fails in every way, in every phase of a run: everyone is down within
// seconds, the right rank is named, nothing is left behind, and the run goes on to the same bits.
namespace convoy {

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
  bool tokens = false;   ///< and tokens
  int context = 1;       ///< ranks that share out rows' positions

  std::string text() const {
    return fmt::format(
        "{}@{}:{}:4 over {} on {} ranks, zero {}{}, {} stages, {} tensor and {} context ranks",
        kind, rank, phase, backend, ranks, zero, offload ? ", offloaded" : "", stages, tensor,
        context);
  }
  bool in_layer() const { return phase.starts_with("layer"); }
  /// Who is told to have computed what is not finite: in a layer all of them.
  std::string spoilt() const {
    const int together = tensor * context;
    if (!in_layer() && (together == 1 || phase == "reduce")) return fmt::format("rank {}", rank);
    std::string out = context == 1  ? "tensor ranks"
                      : tensor == 1 ? "context ranks"
                                    : "context and tensor ranks";
    for (int i = 0; i < together; ++i) {
      out += fmt::format("{} {}", i == 0 ? "" : ",", rank / together * together + i);
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

inline constexpr int kFaultTimeout = 3;  // seconds that a rank waits for another

class Faults : public CommandTest {
 protected:
  void SetUp() override {
    CommandTest::SetUp();
    make_sessions(400);
    write_ring_of_words(folder_, 8);
  }

  /// Of long rows, which context ranks share out.
  static constexpr const char* kText =
      " --model_type gpt2 --n_embd 24 --n_layer 2 --n_head 2 --n_positions 32 --data.train text.txt"
      " --data.tokenizer words --block_size 18 --per_device_train_batch_size 4 --logging_steps 1 "
      "--threads 1 --max_eval_samples 8 ";

  std::string command(const Cell& cell, const std::string& folder) const {
    return fmt::format(
               "launch -n {} train{}--max_steps 6 --eval_strategy steps --eval_steps 2 "
               "--save_steps 2 "
               "--ddp_timeout {} --backend {} --zero {} --bucket_cap_mb 0 --output_dir {} "
               "--pipeline_parallel_size {} --tensor_parallel_size {} --context_parallel_size {} "
               "{}",
               cell.ranks, cell.context > 1 ? kText : kTiny, kFaultTimeout, cell.backend, cell.zero,
               folder, cell.stages, cell.tensor, cell.context,
               cell.tokens ? "--sequence_parallel " : "") +
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
    const auto folder =
        fmt::format("calm-{}-{}-{}-{}-{}{}{}", cell.backend, cell.ranks, cell.stages, cell.tensor,
                    cell.context, cell.tokens ? "-tokens" : "", cell.halves() ? "-halves" : "");
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
    EXPECT_LT(took.count(), cell.waits() ? 10 + kFaultTimeout : 10) << output_;
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

}  // namespace convoy
