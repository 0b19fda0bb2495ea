#include <cmath>
#include <set>
#include <string>

#include "tests/cli/command_testing.h"

// What is predicted of splits that a seed draws, beside what they take.
namespace convoy {
namespace {

class BenchPlan : public CommandTest {
 protected:
  static std::string options(const std::string& more) {
    return " --family gpt2 --n_embd 64 --n_layer 3 --n_head 4 --n_positions 64 --vocab_size 500 "
           "--random_tokens 20000 --block_size 64 --per_device_train_batch_size 4 --threads 1 " +
           more;
  }
};

TEST_F(BenchPlan, ComparesPredictionsWithTrainings) {
  ASSERT_EQ(
      run("bench plan --ranks 2 --seed 3 --plans 4 --rounds 1 --steps 2 --output trials.json" +
          options("--bucket_cap_mb 0")),
      0)
      << output_;
  expect("time: median error");
  expect("memory: median error");
  expect("Kendall's tau");
  const auto found = json("trials.json");
  EXPECT_EQ(found["seed"], 3);
  ASSERT_EQ(found["trials"].size(), 5U);
  std::set<std::string> splits;
  bool shares_positions = false;
  for (const auto& trial : found["trials"]) {
    EXPECT_EQ(trial["failure"], "") << trial;
    EXPECT_EQ(trial["first"].get<bool>(), splits.empty());
    EXPECT_GT(trial["measured_seconds"], 0);
    EXPECT_GT(trial["seconds"], 0);
    const double off =
        trial["memory_bytes"].get<double>() / trial["measured_memory_bytes"].get<double>() - 1;
    EXPECT_LT(std::abs(off), 0.02) << trial;
    shares_positions = shares_positions || trial["context_parallel_size"] == 2;
    splits.insert(trial["split"].get<std::string>());
  }
  EXPECT_EQ(splits.size(), 5U);
  EXPECT_TRUE(shares_positions) << found;
  EXPECT_EQ(found["time"]["number"], 5);
  EXPECT_LE(found["memory"]["nine_of_ten"], 0.02);
}

TEST_F(BenchPlan, LeavesNoFilesWhenItIsKilled) {
  const std::string waits = "for i in $(seq 600); do ";
  ASSERT_EQ(shell("mkdir tmp; TMPDIR=$PWD/tmp $convoy plan --ranks 2 --verify 3" + options("") +
                  "> told 2>&1 & pid=$!; " + waits +
                  "ls tmp/convoy-plan-*/run.toml > seen 2> none && break; sleep 0.1; done; "
                  "kill -KILL $pid; " +
                  waits + "[ -z \"$(ls tmp)\" ] && break; sleep 0.1; done; ls tmp"),
            0)
      << output_;
  EXPECT_NE(read_file(folder_ / "seen"), "") << read_file(folder_ / "told");
  EXPECT_EQ(output_, "") << "files that are left";
}

TEST_F(BenchPlan, SaysWhatDoesNotGo) {
  EXPECT_EQ(run("bench plan --plans 0" + options("")), 2) << output_;
  EXPECT_EQ(run("bench plan --ranks 2 --device_memory 1MB" + options("")), 2) << output_;
  expect("no split of this run fits this host");
}

}  // namespace
}  // namespace convoy
