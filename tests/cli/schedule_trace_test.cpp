#include <regex>

#include "tests/cli/pipeline_testing.h"

// A step of a training over its simulation.
namespace convoy {
namespace {

class ScheduleTrace : public PipelineCommand {};

// Of processes, and of threads: a trace each, or one.
TEST_F(ScheduleTrace, IsComparedWithItsSimulation) {
  const std::string two = "--pipeline_parallel_size 2 --pipeline_schedule zero_bubble ";
  const std::string traced = "--max_steps 6 --trace_steps 2 --save_strategy no --trace t.json ";
  const auto compared = [&](const std::string& more) {
    return run("schedule" + llama(two + "--trace t.json " + more).substr(5));
  };
  for (const std::string ranks : {"--nproc 4 --zero 1 --per_device_train_batch_size 1 ", ""}) {
    ASSERT_EQ(run(llama(two + traced + ranks + "--output_dir out --overwrite_output_dir")), 0)
        << output_;
    ASSERT_EQ(compared("--plot over.svg"), 0) << output_;
    EXPECT_TRUE(std::regex_search(
        output_, std::regex(R"(zero_bubble, a step as t\.json has it: [\d.]+ m?s, simulated )"
                            R"([\d.]+ m?s, [\d.]+ times that; a bubble of [\d.]+ %)")))
        << output_;
    for (const char* line : {"\nmeasured\nstage 0  0", "\nsimulated\nstage 0  0",
                             "Of 2 steps that the trace has", "wrote over.svg"}) {
      expect(line);
    }
    EXPECT_NE(read_file(folder_ / "over.svg").find(">measured<"), std::string::npos);
    if (ranks.empty()) continue;
    ASSERT_EQ(run("report out --trace t.json --output page.html"), 0) << output_;
    const auto page = read_file(folder_ / "page.html");
    EXPECT_NE(page.find("\"collectives\":[{\"bytes\":"), std::string::npos);
  }
  EXPECT_EQ(compared("--gradient_accumulation_steps 8"), 2) << output_;
  expect("try the options of the training that wrote it");
  EXPECT_EQ(compared("--pipeline_parallel_size 3"), 2) << output_;
  expect("but this schedule has the block on stage");
  EXPECT_EQ(run("schedule --stages 2 --trace t.json"), 2) << output_;
  expect("--output.trace=t.json has no effect with --stages");
  EXPECT_EQ(compared("--save out.csv"), 2) << output_;
  expect("try --save without --trace");
  EXPECT_EQ(compared("--trace none.json"), 1) << output_;
  expect("cannot read the trace none.json");
}

}  // namespace
}  // namespace convoy
