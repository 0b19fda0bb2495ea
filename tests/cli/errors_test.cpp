#include <fmt/format.h>
#include <unistd.h>

#include "tests/cli/command_testing.h"
#include "tests/data/parquet_testing.h"

// What goes wrong at a person's hands ends in one line that says what to do.
namespace convoy {
namespace {

class Errors : public CommandTest {
 protected:
  void SetUp() override {
    CommandTest::SetUp();
    make_sessions();
  }

  /// Trains with more arguments and expects failure with `part` in one line.
  void refused(const std::string& arguments, const std::string& part) {
    EXPECT_NE(run("train" + kTiny + "--max_steps 4 " + arguments), 0) << arguments;
    // Notes of the main rank may stand before.
    const bool by_launcher = output_.starts_with("[launch] rank") ||
                             output_.find("\n[launch] rank") != std::string::npos;
    if (!by_launcher) expect("convoy: error");
    expect(part);
    EXPECT_FALSE(says("terminate called")) << output_;
    EXPECT_EQ(output_.find("frame #"), std::string::npos) << output_;
  }

  void write_train(const std::vector<data::testing::Named>& columns) {
    data::testing::write_parquet(folder_ / "syn/train.parquet", columns);
  }
};

TEST_F(Errors, MissingEmptyAndTruncatedParquet) {
  const auto file = folder_ / "syn/train.parquet";
  const auto good = read_file(file);
  refused("--data.train nothere.parquet", "nothere.parquet");
  write_file(file, "");
  refused("", "syn/train.parquet is empty (0 bytes); expected a Parquet file");
  write_file(file, good.substr(0, good.size() / 2));
  refused("", "syn/train.parquet is cut short");
  write_file(file, "user,item\n1,2\n");
  refused("", "syn/train.parquet");
  refused("--data.path nowhere", "data.path = nowhere is not there");
}

TEST_F(Errors, MissingColumnWrongTypeAndIdBeyondTheSchema) {
  using namespace data::testing;
  write_train({{"item_idx-list", int_lists({{1, 2, 3}, {4, 5}})}});
  refused("",
          "column 'item_id-list' is missing in syn/train.parquet, did you mean 'item_idx-list'?");
  write_train({{"item_id-list", float_lists({{1, 2, 3}, {4, 5}})}});
  refused(
      "",
      "column 'item_id-list' of syn/train.parquet is list<element: float>; the schema says that it "
      "holds ids");
  write_train({{"item_id-list", int_lists({{1, 2, 3}, {4, 5}, {6, 31}})}});
  refused("", "column 'item_id-list', row 2 of syn/train.parquet holds id 31; expected 0 to 30");
}

TEST_F(Errors, AMistakeIsToldOnceForAllRanks) {
  const auto once = [&](const std::string& part) {
    expect(part);
    EXPECT_EQ(output_.find(part), output_.rfind(part)) << output_;
  };
  EXPECT_EQ(run("launch -n 3 train" + kTiny + "--max_steps 4 --learning_rat 1"), 2) << output_;
  once("unknown option --learning_rat");
  EXPECT_EQ(run("train" + kTiny + "--max_steps 4 --n_head 3 --nproc 3"), 2) << output_;
  once("does not divide into n_head = 3 heads");
  EXPECT_EQ(run("train" + kTiny + "--data.train nothere.parquet --nproc 3"), 1) << output_;
  once("nothere.parquet");
  // Of ranks that others started the first to come tells it, and who has something else to say.
  const auto by_hand = [&](const std::string& more) {
    EXPECT_EQ(shell("export WORLD_SIZE=3; for RANK in 0 1 2; do export RANK; $convoy train" +
                    kTiny + more + " & done; wait"),
              0);
  };
  by_hand("--learning_rat 1");
  once("unknown option --learning_rat");
  by_hand("--data.train nothere.parquet");
  once("nothere.parquet");
  by_hand("--learning_rat$RANK 1");
  for (const char* rank : {"0", "1", "2"})
    once(std::string("unknown option --learning_rat") + rank);
}

TEST_F(Errors, UnknownOptions) {
  refused("--learning_rat 1", "unknown option --learning_rat, did you mean 'learning_rate'?");
  refused("--train.lr_scheduler linear", "did you mean 'train.lr_scheduler_type'?");
  refused("--strategy tp", "expected one of auto, single, dp, ddp");
  refused("--bf16 --max_steps many", "train.max_steps = 'many'");
  write_file(folder_ / "run.toml", "[train]\nlearning_rate = 1e-3\nwarmup = 3\n");
  refused("run.toml", "unknown option 'train.warmup' in run.toml line 3");
  write_file(folder_ / "run.toml", "[train\n");
  refused("run.toml", "run.toml line 1");
  refused("nothere.toml", "cannot read nothere.toml");
}

TEST_F(Errors, ATokenIsNeverRepeated) {
  const std::string token = "hf_" + std::string(34, 'x');
  for (const auto& way : {"--use_auth_token=" + token, "--use_auth_token " + token,
                          "--token=" + token + " --config_name nowhere",
                          "--token " + token + " --config_name nowhere"}) {
    for (const char* ranks : {"", "launch -n 2 --log-dir logs "}) {
      EXPECT_NE(run(std::string(ranks) + "train --task language --train_file none.txt " + way), 0);
      EXPECT_EQ(output_.find(token), std::string::npos) << output_;
      for (const auto& log : fs::recursive_directory_iterator(folder_)) {
        if (!log.is_regular_file()) continue;
        EXPECT_EQ(read_file(log).find(token), std::string::npos) << log << way;
      }
    }
  }
}

TEST_F(Errors, ImpossibleBatchAndDegrees) {
  refused("--per_device_train_batch_size 0", "expected at least 1");
  refused("--gradient_accumulation_steps 0", "expected at least 1");
  refused("--n_head 3",
          "d_model = 8 does not divide into n_head = 3 heads; try n_head = 2, or d_model = 9");
  refused("--strategy ddp", "try convoy launch -n 2 train ..., or convoy train --nproc 2");
  refused("--strategy dp --replicas 3 --dp_batch total", "does not divide over 3 devices; try 9");
  refused("--max_length 0", "max_length = 0");
  refused("--dropout 1.5", "dropout = 1.5");
  refused("--nproc 0", "--nproc = 0; expected 1 to 4096");
}

TEST_F(Errors, OptionsThatWouldHaveNoEffect) {
  refused("--strategy single --replicas 2", "try strategy = dp");
  refused("--backend nccl", "backend = nccl needs GPUs");
  refused("--backend gloo", "backend = gloo has no effect in one process");
  refused("--top_ks 5,none", "train.top_ks has 'none'");
  refused("--mlm_probability 0.2", "mlm_probability = 0.2 has no effect with model.body = gpt2");
  refused("--mlm_probability 0.15", "try --body bert");
  refused("--trace_steps 3", "output.trace_steps = 3 has no effect without output.trace");
  refused("--dp_batch total --strategy single",
          "parallel.dp_batch = total has no effect with parallel.strategy = single");
  refused("--dp_batch total --nproc 2", "has no effect with parallel.strategy = ddp");
  for (const auto& [option, stage] : {std::pair("prefetch 2", 2),
                                      {"reshard_after_forward false", 2},
                                      {"zero_keep_mb 4", 2},
                                      {"zero_reduce last", 1},
                                      {"shard_ranks host", 0}}) {
    const std::string typed = option, name = typed.substr(0, typed.find(' '));
    refused(fmt::format("--zero {} --{}", stage, typed),
            fmt::format("parallel.{} = {} has no effect with parallel.zero = {}; try --zero ", name,
                        typed.substr(name.size() + 1), stage));
  }
  write_file(folder_ / "run.toml", "[output]\ntrace_steps = 7\n");
  refused("run.toml", "output.trace_steps = 7 has no effect");
  refused("--learning_rate inf", "train.learning_rate = inf is not finite");
  refused("--eval_strategy steps --eval_steps nan", "train.eval_steps = nan is not finite");
  fs::remove(folder_ / "syn/valid.parquet");
  refused("--eval_strategy epoch", "eval_strategy = epoch needs evaluation data");
}

TEST_F(Errors, WholeConfigurationMayBeGivenBack) {
  ASSERT_EQ(run("train" + kTiny + "--max_steps 2 --print-config > full.toml"), 0) << output_;
  EXPECT_EQ(run("train full.toml"), 0) << output_;
}

TEST_F(Errors, ASchemaWithHugeIdsIsRefusedBeforeAnythingIsAllocated) {
  auto schema = json("syn/schema.json");
  for (auto& feature : schema["feature"]) {
    if (feature["name"] == "item_id-list") feature["intDomain"]["max"] = "400000000000";
  }
  write_file(folder_ / "syn/schema.json", schema.dump());
  refused("",
          "feature 'item_id-list' has 400,000,000,001 ids by syn/schema.json: its embedding "
          "takes 11.6 TiB");
  expect("but this machine");
  schema["feature"][1]["intDomain"]["max"] = "9223372036854775807";
  write_file(folder_ / "syn/schema.json", schema.dump());
  refused("", "has max = 9223372036854775807; expected its largest id");
}

TEST_F(Errors, SizesBeyondTheMachineAreRefusedBeforeAnythingIsAllocated) {
  refused("--n_layer 1000000000", "n_layer = 1000000000 with d_model = 8 and n_inner = 32: the");
  refused("--max_length 1000000000000", "max_length = 1000000000000: the table of positions takes");
  expect("but this machine");
  expect("try a smaller max_length");
  refused("--d_model 10000000", "n_layer = 1 with d_model = 10000000");
  refused("--n_inner 1000000000000", "n_inner = 1000000000000: the layers take");
  refused("--item_embedding_dim 1000000000000", "or a smaller item_embedding_dim");
  refused("--replicas 1000000000", "replicas = 1000000000 is out of range; expected between 0 and");
  refused("--gradient_accumulation_steps 1000000000000",
          "gradient_accumulation_steps = 1000000000000: a step of so many micro-batches takes");
  ASSERT_NE(shell("ulimit -v 8000000; $convoy train" + kTiny + "--max_steps 1 --d_model 20000"), 0);
  expect("but `ulimit -v` allows 7.63 GiB; try a smaller n_layer, d_model or n_inner");
}

TEST_F(Errors, UnknownFieldsOfTheSchemaAreNamed) {
  auto schema = json("syn/schema.json");
  schema["feature"][1]["tags"] = "item_id";
  write_file(folder_ / "syn/schema.json", schema.dump());
  ASSERT_EQ(run("train" + kTiny + "--max_steps 2"), 0) << output_;
  expect("warning: feature 'item_id-list' of syn/schema.json has the unknown field 'tags'");
}

TEST_F(Errors, RefusesMoreRanksThanRows) {
  using namespace data::testing;
  write_train({{"item_id-list", int_lists({{1, 2, 3}})}});
  refused("--nproc 2", "syn/train.parquet holds 1 rows for 2 ranks");
}

TEST_F(Errors, AFolderThatHoldsARunIsKept) {
  ASSERT_EQ(run("train" + kTiny + "--max_steps 2 --output_dir out"), 0) << output_;
  const auto before = read_file(folder_ / "out/model.safetensors");
  refused("--output_dir out", "output.dir = out already holds a run; try");
  EXPECT_EQ(read_file(folder_ / "out/model.safetensors"), before);
  EXPECT_EQ(run("train" + kTiny + "--max_steps 3 --output_dir out --overwrite_output_dir"), 0)
      << output_;
  EXPECT_NE(read_file(folder_ / "out/model.safetensors"), before);
}

TEST_F(Errors, AnUnwritableFolderIsFoundBeforeTraining) {
  write_file(folder_ / "file", "");
  refused("--output_dir file/out", "file/out");
  EXPECT_EQ(output_.find("step 1/4"), std::string::npos);
}

TEST_F(Errors, AFullDiskKeepsTheLastGoodCheckpoint) {
  const auto common = "train" + kTiny + "--save_steps 2 --output_dir out ";
  ASSERT_EQ(run(common + "--max_steps 2"), 0) << output_;
  const auto good = read_file(folder_ / "out/checkpoint-2/model.safetensors");
  // A limit on the size of files fails writes in the middle, as a full disk does.
  EXPECT_NE(
      shell("ulimit -f 4; $convoy " + common + "--max_steps 6 --resume_from_checkpoint latest"), 0);
  expect("cannot write out/");
  expect("File too large");
  EXPECT_EQ(read_file(folder_ / "out/checkpoint-2/model.safetensors"), good);
  EXPECT_FALSE(fs::exists(folder_ / "out/checkpoint-4"));
  for (const auto& entry : fs::directory_iterator(folder_ / "out")) {
    EXPECT_EQ(entry.path().string().find(".tmp"), std::string::npos) << entry.path();
  }
  ASSERT_EQ(run(common + "--max_steps 6 --resume_from_checkpoint latest"), 0) << output_;
  expect("resumed        from out/checkpoint-2 at step 2");
}

TEST_F(Errors, ALossThatIsNotANumberNamesStepAndRank) {
  refused("--learning_rate 1e30 --max_steps 30",
          "the loss of step 2 is not finite on rank 0; got nan");
  refused("--learning_rate 1e30 --max_steps 30 --nproc 2", "is not finite on rank");
}

TEST_F(Errors, EvalAndPredictNeedARun) {
  EXPECT_NE(run("eval nowhere"), 0);
  expect("convoy: error");
  expect("nowhere");
  EXPECT_NE(run("predict syn"), 0);
  expect("syn");
  EXPECT_NE(run("trian"), 0);
  expect("unknown command 'trian', did you mean 'train'?");
}

TEST_F(Errors, ATrainedModelIsNotAnotherByOptions) {
  ASSERT_EQ(run("train" + kTiny + "--max_steps 2 --output_dir out"), 0) << output_;
  for (const char* command : {"eval out", "predict out --rows 1", "eval out --nproc 2"}) {
    EXPECT_EQ(run(std::string(command) + " --d_model 16"), 2) << output_;
    expect("model.d_model = 16 has no effect: out was trained with 8; try without --d_model");
    EXPECT_EQ(run(std::string(command) + " --model.d_model=8 --dropout 0.10"), 0) << output_;
    EXPECT_EQ(run(std::string(command) + " --max_length 21"), 2) << output_;
    expect("max_length = 21 is beyond the 20 positions that the model was trained with");
  }
}

}  // namespace
}  // namespace convoy
