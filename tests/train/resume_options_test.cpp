#include <gmock/gmock.h>

#include "tests/train/folders_testing.h"

// What a resumed run believes, by a sample of the options: docs/resuming.md has all of them.
namespace convoy::train {
namespace {

using ::testing::HasSubstr;

class ResumedOptions : public Folders {
 protected:
  std::string resumed(const std::function<void(options::TrainingArguments&)>& change) const {
    auto options = arguments(folder_ / "a", 6);
    options.resume_from_checkpoint = (folder_ / "a/checkpoint-2").string();
    change(options);
    return train(options, one_device()).error;
  }
};

TEST_F(ResumedOptions, AreRefusedOrTakenAsTheTableSays) {
  ASSERT_EQ(train(arguments(folder_ / "a", 4), one_device()).error, "");
  EXPECT_THAT(resumed([](auto& o) { o.optim = "lion_32bit"; }), HasSubstr("try --optim"));
  EXPECT_THAT(resumed([](auto& o) { o.seed = 7; }), HasSubstr("data seed"));
  EXPECT_THAT(resumed([](auto& o) { o.data_seed = 7; }), HasSubstr("data seed"));
  const auto takes = [&](const char* what,
                         const std::function<void(options::TrainingArguments&)>& change) {
    EXPECT_EQ(resumed(change), "") << what;
  };
  takes("rates", [](auto& o) {
    o.learning_rate = 1e-3;
    o.weight_decay = 0.1;
    o.lr_scheduler_type = "cosine";
    o.warmup_steps = 1;
    o.max_grad_norm = 0.5;
    o.adam_beta1 = 0.8;
  });
  takes("batches", [](auto& o) {
    o.per_device_train_batch_size = 2;
    o.gradient_accumulation_steps = 3;
    o.dataloader_drop_last = true;
  });
  takes("precision", [](auto& o) { o.bf16 = o.gradient_checkpointing = true; });
  takes("saving", [](auto& o) {
    o.save_steps = 1;
    o.save_total_limit = 2;
    o.save_async = false;
    o.logging_steps = 1;
    o.output.max_shard_size = "2KB";
  });
}

}  // namespace
}  // namespace convoy::train
