#include <fmt/format.h>

#include <fstream>
#include <optional>
#include <random>
#include <sstream>

#include "tests/cli/ranks_testing.h"

// What goes wrong while checkpoints are written beside the training: one report, no half
// checkpoint.
namespace convoy {
namespace {

class Saving : public Ranks {
 protected:
  /// Two ranks that keep shards and have always a checkpoint under way.
  static std::string train() {
    return "train" + kTiny +
           "--d_model 64 --max_steps 1000000 --save_steps 1 --save_total_limit 3 --zero 2 "
           "--ddp_timeout 5 --output_dir out ";
  }

  int times(const std::string& part) const {
    int count = 0;
    for (size_t at = output_.find(part); at != std::string::npos; at = output_.find(part, at + 1)) {
      ++count;
    }
    return count;
  }

  /// That are listed; each must be whole.
  int checkpoints() {
    int count = 0;
    std::error_code error;
    for (const auto& entry : fs::directory_iterator(folder_ / "out", error)) {
      const auto name = entry.path().filename().string();
      if (!name.starts_with("checkpoint-")) continue;
      ++count;
      const auto said = output_;
      EXPECT_EQ(run("checkpoint verify out/" + name), 0) << output_ << said;
      output_ = said;
    }
    return count;
  }

  /// Process in the test's folder that is this rank.
  std::optional<pid_t> process_of(int rank) const {
    for (const auto& entry : fs::directory_iterator("/proc")) {
      std::error_code gone;
      if (fs::read_symlink(entry.path() / "cwd", gone) != folder_) continue;
      std::ifstream file(entry.path() / "environ");
      std::stringstream variables;
      variables << '\0' << file.rdbuf();
      if (variables.str().find(fmt::format("{0}RANK={1}{0}", '\0', rank)) == std::string::npos) {
        continue;
      }
      return std::stoi(entry.path().filename());
    }
    return std::nullopt;
  }
};

TEST_F(Saving, ARankThatDiesLeavesNoHalfCheckpointAndTheRunGoesOn) {
  std::mt19937 random(7);
  for (int round = 0; round < 3; ++round) {
    const int victim = round % 2;
    std::thread killer([&] {
      const auto log = folder_ / "out/log.jsonl";
      const auto enough = (fs::exists(log) ? fs::file_size(log) : 0) + 10000;
      for (int i = 0; i < 3000 && !(fs::exists(log) && fs::file_size(log) > enough); ++i) {
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(random() % 100));
      // None where the run ended before; 0 would be all processes of this one's group.
      if (const auto pid = process_of(victim)) ::kill(*pid, SIGKILL);
    });
    const bool first = round == 0;
    const int code =
        run("launch -n 2 " + train() + (first ? "" : "--resume_from_checkpoint latest"));
    killer.join();
    EXPECT_NE(code, 0) << output_;
    expect(fmt::format("[launch] rank {} failed first", victim));
    EXPECT_EQ(times("[launch] rank "), 1) << output_;
    EXPECT_GT(checkpoints(), 0) << output_;
  }
}

// What estimates and plans say of memory holds beside checkpoints that are being written.
TEST_F(Saving, CopiesForACheckpointAreNoActivations) {
  const auto activations = [&](const std::string& saves) {
    EXPECT_EQ(run("train --family gpt2 --n_embd 64 --n_layer 2 --n_head 4 --vocab_size 2000 "
                  "--random_tokens 20000 --block_size 32 --per_device_train_batch_size 2 "
                  "--max_steps 6 --output_dir copies --overwrite_output_dir " +
                  saves),
              0)
        << output_;
    return json("copies/train_results.json")["memory_activations_bytes_per_rank"].get<double>();
  };
  const double without = activations("--save_strategy no");
  EXPECT_NEAR(activations("--save_steps 1 --save_total_limit 1") / without, 1, 0.05);
}

TEST_F(Saving, OneRanksFullDiskIsToldOnceByAll) {
  // Rank 1 may not write beyond the first kilobytes of a file.
  const auto rank = [&](const std::string& r) {
    return rank_variables(r) + "$convoy " + train() + " & p" + r + "=$!; ";
  };
  EXPECT_NE(shell(kChoosePort + rank("0") + "ulimit -f 16; " + rank("1") +
                  "wait $p0; a=$?; wait $p1; echo codes $a $?; exit $a"),
            0);
  expect("codes 1 1");
  expect("File too large");
  EXPECT_EQ(times("convoy: error"), 1) << output_;
  EXPECT_EQ(checkpoints(), 0);
  for (const auto& entry : fs::directory_iterator(folder_ / "out")) {
    EXPECT_EQ(entry.path().string().find(".tmp"), std::string::npos) << entry.path();
  }
}

TEST_F(Saving, RanksThatShareNoFolderGiveTheSameFiles) {
  ASSERT_EQ(shell("mkdir far; ln -s ../syn far/syn"), 0);
  const auto rank = [&](const std::string& r, const std::string& place, const std::string& out) {
    return "(cd " + place + "; exec env " + rank_variables(r) + "$convoy train" + kTiny +
           "--zero 2 --backend gloo --max_steps 5 --save_steps 2 --output_dir " + out + ") & p" +
           r + "=$!; ";
  };
  for (const std::string place : {".", "far"}) {
    const std::string out = place == "." ? "near" : "apart";
    ASSERT_EQ(shell(kChoosePort + rank("0", ".", out) + rank("1", place, out) +
                    "wait $p0; a=$?; wait $p1 && exit $a"),
              0)
        << output_;
  }
  EXPECT_FALSE(fs::exists(folder_ / "far/apart")) << "rank 0 writes for it";
  for (const char* file : {"checkpoint-2/optimizer.safetensors",
                           "checkpoint-4/optimizer.safetensors", "checkpoint-4/model.safetensors",
                           "checkpoint-5/optimizer.safetensors", "model.safetensors"}) {
    EXPECT_EQ(shell(fmt::format("cmp near/{0} apart/{0}", file)), 0) << output_;
  }
}

TEST_F(Saving, AFolderThatVanishesEndsTheRunWithOneReport) {
  const std::string vanish = "(while [ ! -e over ]; do rm -rf out/.checkpoint-*; done) & $convoy ";
  for (const char* how : {"", "launch -n 2 "}) {
    ASSERT_EQ(shell("rm -rf out over; " + vanish + how + train() + "; code=$?; touch over; wait; " +
                    "exit $code"),
              1)
        << output_;
    expect("out/.checkpoint-");
    EXPECT_EQ(times("convoy: error") + times("[launch] rank "), 1) << output_;
    checkpoints();
  }
}

class StoppedBenchSave : public CommandTest, public ::testing::WithParamInterface<const char*> {};

TEST_P(StoppedBenchSave, LeavesNothingWhereItIsStopped) {
  make_sessions(300);
  write_file(folder_ / "run.toml", "");
  for (const char* signal : {"TERM", "KILL"}) {
    if (signal == std::string("KILL") && GetParam() == std::string("launch")) continue;
    const std::string start = GetParam() == std::string("launch")
                                  ? "$convoy launch -n 2 bench save "
                                  : "$convoy bench save ";
    const std::string more = GetParam() == std::string("nproc") ? "--nproc 2 " : "";
    EXPECT_EQ(shell(start + "run.toml" + kTiny + more +
                    "--folder runs --saves 1000 --save-steps 4 > log 2>&1 & p=$!; "
                    "for i in $(seq 300); do ls -d runs/bench-save-*/run/checkpoint-* >/dev/null "
                    "2>&1 && break; sleep 0.1; done; ls -d runs/bench-save-* || exit 9; kill -s " +
                    signal +
                    " $p; wait $p; for i in $(seq 80); do ls -d runs/bench-save-* > /dev/null 2>&1 "
                    "|| exit 0; sleep 0.1; done; exit 8"),
              0)
        << signal << output_;
  }
}

INSTANTIATE_TEST_SUITE_P(Started, StoppedBenchSave, ::testing::Values("single", "nproc", "launch"));

TEST_F(Saving, ABenchLeavesNothingAfterAnError) {
  make_sessions(300);
  write_file(folder_ / "run.toml", "");
  EXPECT_NE(run("bench save run.toml" + kTiny + "--folder runs --learning_rate 1e30"), 0)
      << output_;
  EXPECT_TRUE(fs::is_empty(folder_ / "runs")) << output_;
}

TEST_F(Saving, AStartTellsThatTheDiskIsTooSmall) {
  const std::string all =
      "train" + kTiny + "--save_steps 1 --max_steps 2000000000 --output_dir big ";
  for (const bool limited : {false, true}) {
    EXPECT_EQ(shell("CONVOY_FAULT=exit@0:forward:1 $convoy " + all +
                    (limited ? "--save_total_limit 2 --overwrite_output_dir" : "")),
              9);
    EXPECT_EQ(times("this run takes up to"), limited ? 0 : 1) << output_;
    EXPECT_EQ(times("2000000000 checkpoints of"), limited ? 0 : 1) << output_;
  }
}

}  // namespace
}  // namespace convoy
