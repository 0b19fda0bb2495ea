#include "tests/cli/language_testing.h"

// Label smoothing of language models.
namespace convoy {
namespace {

class SmoothedLabels : public LanguageCommand {
 protected:
  static std::string train(const std::string& more) {
    return std::string("train") + kLlama + kTiny +
           "--threads 1 --label_smoothing_factor 0.1 --logging_steps 1 --max_steps 4 " + more;
  }
};

TEST_F(SmoothedLabels, HaveTheSameLossesInEveryLayout) {
  const auto run_as = [&](const char* out, const std::string& more) {
    ASSERT_EQ(run(train("--output_dir " + std::string(out) + " " + more)), 0) << output_;
  };
  run_as("one", "--per_device_train_batch_size 4");
  run_as("zero", "--nproc 2 --zero 3 --per_device_train_batch_size 2");
  run_as("stages",
         "--nproc 2 --pipeline_parallel_size 2 --gradient_accumulation_steps 2 "
         "--per_device_train_batch_size 2");
  run_as("heads", "--nproc 2 --tensor_parallel_size 2 --per_device_train_batch_size 4");
  for (const char* out : {"zero", "stages", "heads"}) {
    SCOPED_TRACE(out);
    expect_near(losses("one"), losses(out));
  }
  run_as("plain", "--per_device_train_batch_size 4 --label_smoothing_factor 0");
  EXPECT_NE(losses("one"), losses("plain"));
  // The loss of an evaluation is that of the same weights without it.
  const auto smoothed = json("one/eval_results.json").at("eval_loss").get<double>();
  ASSERT_EQ(run("eval one --label_smoothing_factor 0 --threads 1 --json > found.json"), 0);
  EXPECT_NEAR(json("found.json").at("eval_loss").get<double>() / smoothed, 1, 1e-6);
}

TEST_F(SmoothedLabels, AreRefusedWhereRanksShareOutTokens) {
  EXPECT_EQ(run(train("--output_dir out --nproc 2 --tensor_parallel_size 2 --sequence_parallel")),
            2);
  expect("label_smoothing_factor = 0.1 does not go with sequence_parallel = true");
  EXPECT_EQ(run(train("--output_dir out --nproc 2 --context_parallel_size 2")), 2);
  expect("does not go with context_parallel_size = 2");
}

}  // namespace
}  // namespace convoy
