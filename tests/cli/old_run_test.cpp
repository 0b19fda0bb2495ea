#include <cmath>

#include "tests/cli/command_testing.h"

// A run that an earlier convoy wrote (commit 2aed100): `convoy train --family gpt2 --vocab_size 24
// --n_positions 8 --n_embd 4 --n_layer 2 --n_head 2 --random_tokens 64 --block_size 8
// --per_device_train_batch_size 2 --num_train_epochs 1 --save_strategy epoch --logging_steps 1
// --learning_rate 1e-2 --zero 1 --bucket_cap_mb 1 --seed 7 --output_dir run`.
namespace convoy {
namespace {

class OldRun : public CommandTest {
 protected:
  void SetUp() override {
    CommandTest::SetUp();
    fs::copy(fs::path(CONVOY_SOURCE_DIR) / "tests/cli/old_run", folder_ / "old",
             fs::copy_options::recursive);
  }
};

TEST_F(OldRun, GoesOnFromItsCheckpointOnAnyNumberOfRanks) {
  for (const char* more : {"", "--nproc 2 --zero 2 --per_device_train_batch_size 1"}) {
    fs::copy(folder_ / "old", folder_ / "on", fs::copy_options::recursive);
    ASSERT_EQ(run(fmt::format("train on/run.toml --output_dir on --resume_from_checkpoint latest "
                              "--num_train_epochs 2 {}",
                              more)),
              0)
        << output_;
    const auto state = json("on/trainer_state.json");
    EXPECT_EQ(state["global_step"], 8);
    EXPECT_EQ(state["log_history"][0]["loss"],
              json("old/trainer_state.json")["log_history"][0]["loss"])
        << "the history is kept";
    // It learnt something: fresh weights begin at the logarithm of 24.
    EXPECT_LT(json("on/train_results.json")["train_final_loss"].get<double>(), std::log(24) + 0.05);
    fs::remove_all(folder_ / "on");
  }
}

TEST_F(OldRun, ModelStartsANewTraining) {
  ASSERT_EQ(run("train --model_name_or_path old --random_tokens 64 --block_size 8 --max_steps 1 "
                "--learning_rate 0 --logging_steps 1 --output_dir new"),
            0)
      << output_;
  EXPECT_EQ(read_file(folder_ / "new/model.safetensors").size(),
            read_file(folder_ / "old/model.safetensors").size());
  EXPECT_EQ(run("estimate old/run.toml"), 0) << output_;
}

}  // namespace
}  // namespace convoy
