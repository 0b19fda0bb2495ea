#include <fmt/format.h>

#include "tests/cli/ranks_testing.h"
#include "tests/cli/ring_of_words.h"

// Real processes that share out experts.
namespace convoy {
namespace {

class ExpertRanksCommand : public Ranks {
 protected:
  void SetUp() override {
    Ranks::SetUp();
    write_ring_of_words(folder_, 8);
  }

  /// With dropout.
  static std::string mixtral(const std::string& more) {
    return "train --model_type mixtral --hidden_size 24 --num_hidden_layers 2"
           " --num_attention_heads 2 --num_key_value_heads 2 --intermediate_size 20"
           " --num_local_experts 4 --attention_dropout 0.1"
           " --max_position_embeddings 32 --data.train text.txt --data.tokenizer words"
           " --block_size 16 --learning_rate 1e-2 --lr_scheduler_type constant"
           " --per_device_train_batch_size 4 --threads 1 --logging_steps 1 --save_steps 3 " +
           more;
  }

  static constexpr const char* kTwo = "--nproc 2 --expert_parallel_size 2 ";
};

TEST_F(ExpertRanksCommand, TrainAndSaveWhatDataParallelRanksDo) {
  const std::string balanced = "--output_router_logits true --router_aux_loss_coef 0.1 ";
  ASSERT_EQ(run(mixtral("--max_steps 6 --output_dir data --nproc 2 " + balanced)), 0) << output_;
  for (const std::string more : {"", "--zero 1", "--zero 2", "--zero 3 --gradient_checkpointing"}) {
    SCOPED_TRACE(more);
    ASSERT_EQ(run(mixtral("--max_steps 6 --output_dir experts --overwrite_output_dir "
                          "--check_replicas_steps 2 " +
                          balanced + more + " " + kTwo)),
              0)
        << output_;
    expect("strategy       expert");
    expect("mesh           2 expert");
    EXPECT_EQ(losses("experts"), losses("data"));
    EXPECT_EQ(model("experts"), model("data")) << "the same files";
    ASSERT_EQ(run("checkpoint verify experts/checkpoint-6"), 0) << output_;
    for (const char* key : {"eval_loss", "eval_accuracy"}) {
      EXPECT_EQ(json("experts/eval_results.json").at(key), json("data/eval_results.json").at(key));
    }
  }
}

TEST_F(ExpertRanksCommand, GoOnWithCheckpointsOfAnyLayout) {
  ASSERT_EQ(run(mixtral("--max_steps 6 --output_dir data --nproc 2")), 0) << output_;
  ASSERT_EQ(run(mixtral("--max_steps 6 --output_dir experts " + std::string(kTwo))), 0) << output_;
  const auto whole = losses("data");
  const std::vector<double> rest(whole.begin() + 3, whole.end());
  for (const auto& [from, ranks] :
       {std::pair<std::string, std::string>("experts", "--gradient_accumulation_steps 2"),
        {"data", kTwo},
        {"experts", "--nproc 2 --zero 3"},
        {"data", "--nproc 2 --ep_size 2 --zero 2"},
        {"experts", "--nproc 4 --ep_size 2 --per_device_train_batch_size 2"},
        {"experts", "--nproc 4 --ep_size 4 --per_device_train_batch_size 2 --expert_joined true"},
        {"data", "--nproc 4 --ep_size 2 --pp_size 2"}}) {
    SCOPED_TRACE(fmt::format("from {} with '{}'", from, ranks));
    ASSERT_EQ(run(mixtral(fmt::format("--max_steps 6 --output_dir on --overwrite_output_dir "
                                      "--resume_from_checkpoint {}/checkpoint-3 {}",
                                      from, ranks))),
              0)
        << output_;
    expect_near(rest, losses("on"), 1e-4);
  }
}

TEST_F(ExpertRanksCommand, GoOnWithCopiesInMemory) {
  const std::string steps = "--max_steps 5 --save_strategy no --output_dir ";
  ASSERT_EQ(run(mixtral(steps + "whole " + kTwo)), 0) << output_;
  for (const std::string zero : {"0", "1"}) {
    ASSERT_EQ(shell("CONVOY_FAULT=exit@1:forward:5 $convoy launch -n 2 --max-restarts 1 " +
                    mixtral(steps +
                            "on --overwrite_output_dir --ep_size 2 --memory_copy_steps 2"
                            " --zero " +
                            zero)),
              0)
        << output_;
    expect("going on from the memory copy of step 4");
    EXPECT_EQ(model("on"), model("whole"));
  }
}

TEST_F(ExpertRanksCommand, Evaluate) {
  ASSERT_EQ(run(mixtral("--max_steps 10 --output_dir out")), 0) << output_;
  ASSERT_EQ(run("eval out --json --threads 1 > one.json"), 0) << output_;
  // The last batches leave some ranks without rows.
  for (const std::string ranks : {"--nproc 2 --ep_size 2", "--nproc 4 --ep_size 2 --zero 3",
                                  "--nproc 4 --ep_size 4 --per_device_eval_batch_size 3"}) {
    SCOPED_TRACE(ranks);
    ASSERT_EQ(run("eval out --json --threads 1 " + ranks + " > some.json"), 0) << output_;
    for (const char* key : {"eval_loss", "eval_accuracy", "eval_samples"}) {
      EXPECT_NEAR(json("some.json").at(key), json("one.json").at(key), 1e-5) << key;
    }
  }
  for (const std::string command : {"generate out --prompt w1 ", "predict out --rows 1 "}) {
    EXPECT_EQ(run(command + kTwo), 2) << output_;
    expect("expert_parallel_size = 2 is for training and evaluation");
  }
}

TEST_F(ExpertRanksCommand, RefuseWhatDoesNotGoTogether) {
  const auto refused = [&](const std::string& options, const char* why) {
    EXPECT_EQ(run(mixtral("--max_steps 1 " + options)), 2) << output_;
    expect(why);
  };
  refused("--ep_size 2",
          "expert_parallel_size = 2 needs a process for each expert rank; got one process; try "
          "--nproc 2");
  refused("--nproc 2 --ep_size 4", "got 2 ranks; try --nproc 4");
  refused("--nproc 3 --ep_size 3",
          "expert_parallel_size = 3 does not divide the 4 experts of a layer, of which each rank "
          "has as many; try --expert_parallel_size 2");
  refused("--strategy dp --replicas 2 --ep_size 2",
          "expert_parallel_size = 2 needs a process for each rank, but strategy = dp is "
          "DataParallel in one process; try --nproc 2 without it");
  refused("--nproc 4 --ep_size 2 --tp_size 2",
          "expert_parallel_size = 2 does not go with tensor_parallel_size = 2");
  refused("--nproc 2 --ep_size 2 --zero 1 --offload_optimizer disk",
          "expert_parallel_size = 2 does not go with offload");
  refused("--nproc 2 --ep_size 2 --zero 1 --shard_ranks 1",
          "shard_ranks = 1 with expert_parallel_size = 2");
  EXPECT_EQ(run("train" + kTiny + "--max_steps 1 " + kTwo), 2) << output_;
  expect("expert_parallel_size = 2 deals out the experts of a layer, and this model has none");
}

}  // namespace
}  // namespace convoy
