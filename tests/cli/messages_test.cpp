#include <fmt/format.h>

#include "tests/cli/command_testing.h"

// What the system, the libraries below, or a slip of the hand bring about is said in plain words.
namespace convoy {
namespace {

class Messages : public CommandTest {
 protected:
  void SetUp() override {
    CommandTest::SetUp();
    make_sessions();
  }

  /// Runs shell words without root's rights.
  int as_nobody(const std::string& words) {
    fs::permissions(folder_, fs::perms(0755));
    return shell(
        "export convoy; [ $(id -u) = 0 ] && "
        "as='setpriv --reuid=65534 --clear-groups'; $as bash -c '" +
        words + "'");
  }

  const std::string train_ = "train" + kTiny + "--max_steps 2 ";
};

TEST_F(Messages, ATmpdirThatIsMissing) {
  EXPECT_EQ(shell("TMPDIR=/nowhere $convoy " + train_ + "--nproc 2"), 1);
  expect("there is no folder for temporary files: TMPDIR = /nowhere; try TMPDIR=/tmp");
}

TEST_F(Messages, AWorkingFolderThatIsGone) {
  EXPECT_EQ(shell("here=$PWD; mkdir gone; cd gone; rmdir ../gone; $convoy train --data.path "
                  "$here/syn --max_steps 1"),
            1);
  expect("the working folder was deleted; try cd to another");
}

TEST_F(Messages, AStackThatIsTooSmall) {
  for (const char* kilobytes : {"64", "256", "1000"}) {
    EXPECT_EQ(shell("ulimit -s " + std::string(kilobytes) + "; $convoy " + train_), 1) << output_;
    expect("convoy: error: [cli] the stack may not grow to 1 MiB; try ulimit -s 8192\n");
  }
  EXPECT_EQ(shell("ulimit -s 1024; $convoy " + train_ + "--replicas 2"), 0) << output_;
  EXPECT_EQ(shell("ulimit -s 1024; $convoy " + train_ + "--nproc 2"), 0) << output_;
}

TEST_F(Messages, RefuseMoreThreadsOrProcessesThanTheSystemAllows) {
  EXPECT_EQ(run(train_ + "--threads 100000"), 2);
  expect("parallel.threads = 100000 is out of range; expected between 0 and 1024");
  EXPECT_EQ(as_nobody("ulimit -u 1; $convoy " + train_), 1);
  expect("cannot start another thread or process: the system allows no more, ulimit -u = 1; try");
  for (const char* processes : {"1", "2", "3"}) {  // libgomp ends the program in words of its own
    EXPECT_EQ(
        as_nobody("ulimit -u " + std::string(processes) + "; $convoy " + train_ + "--threads 8"),
        1);
    expect("the system allows no more, ulimit -u = " + std::string(processes) + "; try");
    EXPECT_EQ(output_.find("libgomp"), std::string::npos) << output_;
    EXPECT_EQ(output_.find("jemalloc"), std::string::npos) << output_;
  }
  EXPECT_NE(as_nobody("ulimit -u 5; $convoy " + train_ + "--nproc 2"), 0);
  expect("ulimit -u");
}

TEST_F(Messages, ALimitOnTheSizeOfFilesIsNoLostRank) {
  const auto told = [&](const char* blocks, const std::string& more, const std::string& part) {
    EXPECT_EQ(shell(fmt::format("ulimit -f {}; $convoy {} --nproc 2 {}", blocks, train_, more)), 1)
        << output_;
    expect("failed first");
    expect(part);
    EXPECT_EQ(output_.find("network"), std::string::npos) << output_;
  };
  const std::string advice = "File too large; try a higher `ulimit -f`, or ";
  // Shared memory counts as a file.
  told("1000", "", "of shared memory for 2 ranks: " + advice + "backend = gloo\n");
  EXPECT_EQ(shell("ulimit -f 1000; $convoy " + train_ + "--nproc 2 --backend gloo"), 0) << output_;
  told("16", "--backend gloo --d_model 64 --output_dir out --save_steps 1", advice);
}

TEST_F(Messages, NoPermissionIsNoFullDisk) {
  EXPECT_EQ(run(train_ + "--output_dir out"), 0) << output_;
  for (const char* file : {"top.csv", "top.jsonl", "top.parquet"}) {
    EXPECT_EQ(as_nobody("$convoy predict out --output " + std::string(file)), 1);
    expect(std::string(file) + ": Permission denied; try a place where you may write");
  }
  EXPECT_EQ(run("predict out --output - > /dev/full"), 1);
  expect("cannot write the standard output: No space left on device");
}

TEST_F(Messages, AModelWhoseConfigWasSpoilt) {
  ASSERT_EQ(run(train_ + "--output_dir out"), 0) << output_;
  const auto good = json("out/config.json");
  auto refused = [&](const char* key, const Json& value, const std::string& part) {
    auto spoilt = good;
    spoilt[key] = value;
    write_file(folder_ / "out/config.json", spoilt.dump());
    EXPECT_EQ(run("eval out"), 1) << key;
    expect(part);
    EXPECT_EQ(output_.find("json.exception"), std::string::npos) << output_;
  };
  refused("d_model", -8, "d_model = -8; expected at least 1 (in out/config.json)");
  refused("n_layer", -1, "n_layer = -1; expected at least 0");
  refused("max_length", 0, "max_length = 0; expected at least 2");
  refused("dropout", 1.5, "dropout = 1.5; expected between 0 and 0.99");
  refused("temperature", 0, "temperature = 0; expected at least 1e-06");
  refused("d_model", "x", "out/config.json: d_model = \"x\" is not a whole number");
  refused("features", 3, "is not a session model's config");
  refused("resid_pdrop", 0.1, "has the key resid_pdrop, which this convoy does not know");
  write_file(folder_ / "out/config.json", "{\"n_embd\": 1e999}");
  EXPECT_EQ(run("eval out"), 1);
  expect("out/config.json is not valid JSON: number overflow parsing '1e999'");
}

TEST_F(Messages, NamesOfOtherProgramsAreAnsweredWithOurs) {
  for (const auto& [typed, meant] : std::vector<std::pair<std::string, std::string>>{
           {"lr", "learning_rate"},
           {"epochs", "num_train_epochs"},
           {"batch_size", "per_device_train_batch_size"},
           {"bs", "per_device_train_batch_size"},
           {"wd", "weight_decay"},
           {"hidden_size", "d_model"},
           {"num_hidden_layers", "n_layer"},
           {"num_attention_heads", "n_head"},
           {"max_seq_length", "max_length"},
           {"num_warmup_steps", "warmup_steps"},
           {"no_cuda", "device"},
           {"nproc_per_node", "nproc"},
           {"model.hidden_size", "model.d_model"}}) {
    EXPECT_EQ(run("train --" + typed + " 1"), 2);
    expect("unknown option --" + typed + ", did you mean '" + meant + "'?");
  }
  write_file(folder_ / "run.toml", "[train]\nlr = 3\n");
  EXPECT_EQ(run("train run.toml"), 2);
  expect(
      "unknown option 'train.lr' in run.toml line 2 column 6, did you mean 'train.learning_rate'?");
}

TEST_F(Messages, OptionsThatHardlyMeanWhatTheySayAreWarnedOf) {
  ASSERT_EQ(run(train_ + "--eval_steps 1 --warmup_steps 2"), 0) << output_;
  expect(
      "warning: eval_steps = 1 has no effect with eval_strategy = no; try --eval_strategy steps");
  expect("warning: warmup_steps = 2 reaches to the end of the run's 2 steps");
  ASSERT_EQ(run(train_ + "--eval_steps 1 --eval_strategy steps --warmup_steps 1"), 0) << output_;
  EXPECT_EQ(output_.find("warning"), std::string::npos) << output_;
  ASSERT_EQ(run(train_ + "--save_steps 7 --save_strategy epoch"), 0) << output_;
  expect("warning: save_steps = 7 has no effect with save_strategy = epoch");
}

}  // namespace
}  // namespace convoy
