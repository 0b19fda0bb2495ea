#include <map>

#include "convoy/machine/gpus.h"
#include "tests/cli/command_testing.h"

// convoy bench collectives, on sizes that take no time.
namespace convoy {
namespace {

class Collectives : public CommandTest {};

TEST_F(Collectives, AreMeasuredFittedAndDrawn) {
  ASSERT_EQ(run("bench collectives --sizes 1K,64K --seconds 0.01 --dtypes fp32,bf16 --ranks 2,3 "
                "--output out"),
            0)
      << output_;
  expect("all_reduce, bf16, 3 ranks");
  expect("time = latency + bytes / bandwidth");
  std::map<std::string, int> counts;
  for (const auto& row : json("out/collectives.json")) {
    EXPECT_GT(row["microseconds"].get<double>(), 0) << row;
    EXPECT_GT(row["busbw_gb_per_s"].get<double>(), 0) << row;
    ++counts[row["engine"]];
  }
  // Two sizes, two types, two numbers of ranks, eight collectives.
  for (const char* engine : {"shm", "gloo", "threads"}) EXPECT_EQ(counts[engine], 64) << engine;
  EXPECT_EQ(counts["memcpy"], 2);
  EXPECT_EQ(json("out/collectives_fit.json").size(), 3u * 32 + 1);
  EXPECT_NE(read_file(folder_ / "out/collectives.svg").find("send_receive, bf16, 3 ranks"),
            std::string::npos);
}

TEST_F(Collectives, MeasureTheRanksOfALauncher) {
  ASSERT_EQ(run("launch -n 2 bench collectives --sizes 1K --seconds 0.01 --engines shm "
                "--collectives all_reduce --json"),
            0)
      << output_;
  const auto rows = parse_json(output_, "output");
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_EQ(rows[0]["ranks"], 2);
}

TEST_F(Collectives, ThreadsEngineNeedsNoRanks) {
  ASSERT_EQ(run("bench collectives --engines threads --sizes 1K --seconds 0.01 --collectives "
                "all_reduce --json"),
            0)
      << output_;
  EXPECT_EQ(parse_json(output_, "output").size(), 2u);  // and a copy
}

TEST_F(Collectives, AreOfTheDeviceThatIsAskedFor) {
  // It is no option of a training, which would be read before.
  EXPECT_NE(run("bench collectives --engines threads --sizes 1K --device gpu"), 0) << output_;
  expect("--device");
  if (machine::visible_gpus() > 0) return;
  EXPECT_EQ(run("bench collectives --engines threads --sizes 1K --device cuda"), 2) << output_;
  expect("device = cuda was asked for");
}

TEST_F(Collectives, RefuseImpossibleOptions) {
  EXPECT_EQ(run("bench collectives --sizes 1X"), 2) << output_;
  expect("--sizes names '1X'; expected bytes such as 1024, 64K or 16M");
  EXPECT_EQ(run("bench collectives --ranks 1"), 2) << output_;
  EXPECT_EQ(run("bench collectives --dtypes fp8"), 2) << output_;
  EXPECT_NE(run("bench collectives --engines mpi"), 0) << output_;
}

}  // namespace
}  // namespace convoy
