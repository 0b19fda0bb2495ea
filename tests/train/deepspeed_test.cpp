#include "convoy/options/deepspeed.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "convoy/base/error.h"
#include "convoy/base/files.h"
#include "convoy/options/arguments.h"
#include "tests/train/testing.h"

namespace convoy::train {
namespace {

using ::testing::HasSubstr;

class DeepSpeed : public InFolder {
 protected:
  DeepSpeed() { arguments_.declare(table_); }

  void read(const std::string& json) {
    const auto file = folder_ / "ds.json";
    write_file(file, json);
    const auto asked = options::read_deepspeed(file);
    notes_ = asked.notes;
    asked.apply(table_, "ds.json");
  }
  std::string error_of(const std::string& json) {
    try {
      read(json);
      return "no error";
    } catch (const Error& error) {
      return error.what();
    }
  }

  options::TrainingArguments arguments_;
  OptionTable table_;
  std::vector<std::string> notes_;
};

TEST_F(DeepSpeed, TakesWhatTransformersExamplesHold) {
  read(R"({
    "fp16": {"enabled": "auto", "loss_scale": 0, "loss_scale_window": 1000,
             "initial_scale_power": 16, "hysteresis": 2, "min_loss_scale": 1},
    "bf16": {"enabled": true},
    "optimizer": {"type": "AdamW", "params": {"lr": 3e-4, "betas": [0.8, 0.95], "eps": "auto",
                                              "weight_decay": 0.1}},
    "scheduler": {"type": "WarmupDecayLR", "params": {"warmup_min_lr": 0, "warmup_max_lr": 3e-4,
                  "warmup_num_steps": 12, "total_num_steps": "auto"}},
    "zero_optimization": {"stage": 3, "overlap_comm": true, "contiguous_gradients": true,
      "offload_optimizer": {"device": "nvme", "nvme_path": "/scratch", "pin_memory": true},
      "offload_param": {"device": "cpu"}, "sub_group_size": 1e9,
      "stage3_gather_16bit_weights_on_model_save": true},
    "gradient_accumulation_steps": 4, "gradient_clipping": 0.5, "steps_per_print": 2000,
    "train_batch_size": "auto", "train_micro_batch_size_per_gpu": 2,
    "wall_clock_breakdown": false
  })");
  EXPECT_TRUE(arguments_.bf16);
  EXPECT_FALSE(arguments_.fp16);
  EXPECT_DOUBLE_EQ(arguments_.learning_rate, 3e-4);
  EXPECT_DOUBLE_EQ(arguments_.adam_beta1, 0.8);
  EXPECT_DOUBLE_EQ(arguments_.adam_beta2, 0.95);
  EXPECT_DOUBLE_EQ(arguments_.weight_decay, 0.1);
  EXPECT_EQ(arguments_.lr_scheduler_type, "linear");
  EXPECT_EQ(arguments_.parallel.parallelism.zero, 3);
  EXPECT_EQ(table_.find("parallel.offload_optimizer")->plain(), "disk");
  EXPECT_EQ(table_.find("parallel.offload_parameters")->plain(), "cpu");
  EXPECT_EQ(table_.find("parallel.offload_dir")->plain(), "/scratch");
  EXPECT_EQ(arguments_.gradient_accumulation_steps, 4);
  EXPECT_EQ(arguments_.per_device_train_batch_size, 2);
  EXPECT_DOUBLE_EQ(arguments_.max_grad_norm, 0.5);
  EXPECT_FALSE(arguments_.global_batch_size.has_value());
  EXPECT_EQ(table_.find("train.warmup_steps")->plain(), "12");
  EXPECT_THAT(notes_,
              ::testing::Contains(HasSubstr("overlap_comm: communication always overlaps")));
}

TEST_F(DeepSpeed, RefusesByNameAndLine) {
  EXPECT_THAT(
      error_of("{\n\"zero_optimization\": {\n\"stage\": 1,\n\"zero_quantized_weights\": true}}"),
      HasSubstr("ds.json:4: zero_optimization.zero_quantized_weights = true cannot be had"));
  EXPECT_THAT(
      error_of(R"({"optimizer": {"type": "OneBitAdam"}})"),
      HasSubstr("ds.json:1: optimizer.type = OneBitAdam cannot be had here; expected Adam"));
  EXPECT_THAT(error_of("{\n\n\"stage\": 2}"),
              HasSubstr("ds.json:3: stage is no key of DeepSpeed's that convoy knows, did you mean "
                        "zero_optimization.stage?"));
  EXPECT_THAT(error_of(R"({"amp": {"enabled": true}})"), HasSubstr("amp cannot be had here"));
  EXPECT_EQ(error_of(R"({"amp": {"enabled": false}, "sparse_gradients": false})"), "no error");
}

TEST_F(DeepSpeed, TakesTheKeysThatKnobsOfAStepName) {
  read(R"({"train_batch_size": 32, "tensor_parallel": {"autotp_size": 2},
           "zero_optimization": {"stage": 3, "cpu_offload": true, "zero_hpz_partition_size": 4,
                                 "offload_param": {"device": "nvme", "nvme_path": "/scratch"}}})");
  EXPECT_EQ(arguments_.global_batch_size, 32);
  EXPECT_EQ(arguments_.parallel.parallelism.ranks.tensor, 2);
  EXPECT_EQ(arguments_.parallel.shard_ranks, "4");
  const auto& offload = arguments_.parallel.parallelism.offload;
  EXPECT_EQ(offload.optimizer, parallel::Place::Cpu);
  EXPECT_EQ(offload.parameters, parallel::Place::Disk);
  EXPECT_EQ(offload.folder, "/scratch");
  EXPECT_THAT(error_of(R"({"zero_optimization": {"offload_param": {"device": "gpu"}}})"),
              HasSubstr("= gpu cannot be had here; expected cpu or none or nvme"));
}

TEST_F(DeepSpeed, TakesItsOldNameOfBf16) {
  read(R"({"bfloat16": {"enabled": true}})");
  EXPECT_TRUE(arguments_.bf16);
}

TEST_F(DeepSpeed, SaysWhatIsWrongWithAValue) {
  EXPECT_EQ(error_of(R"({"optimizer": {"type": "AdamW", "params": {"betas": "auto"}},
                         "zero_optimization": {"stage": 3, "aio": {"block_size": 1048576}}})"),
            "no error");
  EXPECT_THAT(error_of(R"({"optimizer": {"params": {"betas": [0.9]}}})"),
              HasSubstr("betas = [0.9]; expected a list of two numbers"));
  EXPECT_THAT(error_of(R"({"bf16": true})"), HasSubstr("bf16 = true; expected an object"));
  EXPECT_THAT(error_of(R"({"gradient_clipping": {"a": 1}})"),
              HasSubstr("gradient_clipping is an object; expected a value"));
  EXPECT_THAT(error_of("{\"bf16\": {\"enabled\": true,\n\"enabled\": false}}"),
              HasSubstr("enabled stands twice"));
  EXPECT_THAT(error_of(R"({"train_batch_size": 16, "train_micro_batch_size_per_gpu": 4,
                           "gradient_accumulation_steps": 3})"),
              HasSubstr("train_batch_size = 16 is no multiple of"));
  EXPECT_THAT(error_of(std::string(100000, '[') + std::string(100000, ']')),
              HasSubstr("more than 500 deep"));
}

TEST_F(DeepSpeed, MustNotSayOtherwiseThanTheCommandLine) {
  table_.take_overrides({"--learning_rate", "1e-3", "--gradient_accumulation_steps", "2"});
  EXPECT_THAT(error_of(R"({"optimizer": {"params": {"lr": 2e-3}}})"),
              HasSubstr("optimizer.params.lr = 0.002, but learning_rate is 0.001"));
  table_.take_overrides({"--learning_rate", "1e-3"});
  EXPECT_EQ(error_of(R"({"optimizer": {"params": {"lr": "auto"}},
                         "gradient_accumulation_steps": 2})"),
            "no error");
  EXPECT_DOUBLE_EQ(arguments_.learning_rate, 1e-3);
}

TEST_F(DeepSpeed, BatchOfAStepDecidesOnAccumulation) {
  read(R"({"train_batch_size": 64, "train_micro_batch_size_per_gpu": 4,
           "gradient_accumulation_steps": 8})");
  EXPECT_EQ(arguments_.global_batch_size, 64);
  EXPECT_EQ(arguments_.per_device_train_batch_size, 4);
  EXPECT_EQ(arguments_.gradient_accumulation_steps, 1);
  EXPECT_THAT(notes_, ::testing::Contains(HasSubstr("follows from train_batch_size")));
  read(R"({"train_batch_size": 64, "gradient_accumulation_steps": 1,
           "train_micro_batch_size_per_gpu": "auto"})");
  EXPECT_EQ(arguments_.global_batch_size, 64);
}

TEST_F(DeepSpeed, AMicroBatchThatRanksWouldDecideOnIsNotDropped) {
  EXPECT_THAT(error_of(R"({"train_batch_size": 64, "gradient_accumulation_steps": 1})"),
              HasSubstr("gradient_accumulation_steps = 1 and train_batch_size = 64 leave "
                        "train_micro_batch_size_per_gpu to the number of ranks; try to say it, 64 "
                        "/ (1 x ranks), or \"auto\""));
  read(R"({"train_batch_size": 64, "gradient_accumulation_steps": "auto"})");
  EXPECT_EQ(arguments_.global_batch_size, 64);
}

}  // namespace
}  // namespace convoy::train
