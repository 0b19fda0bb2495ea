#include <fmt/format.h>

#include "tests/cli/command_testing.h"

// convoy checkpoint: what a person sees of a folder of weights, and what is wrong with it.
namespace convoy {
namespace {

class CheckpointCommand : public CommandTest {
 protected:
  /// A language model in `out`, with checkpoints of steps 2 and 4, saved by two ranks in shards.
  void SetUp() override {
    CommandTest::SetUp();
    std::string words = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n", lines;
    for (int i = 0; i < 20; ++i) words += fmt::format("w{}\n", i);
    for (int i = 0; i < 400; ++i) lines += fmt::format("w{} ", i * 7 % 20);
    write_file(folder_ / "words/vocab.txt", words);
    write_file(folder_ / "text.txt", lines);
    ASSERT_EQ(run("train --data.train text.txt --data.tokenizer words --block_size 8 --family gpt2 "
                  "--n_embd 16 --n_layer 2 --n_head 2 --n_positions 8 --max_steps 4 --save_steps 2 "
                  "--per_device_train_batch_size 2 --output_dir out --nproc 2 --zero 3 --threads 1 "
                  "--max_shard_size 12KB"),
              0)
        << output_;
  }

  Json json_of(const std::string& command, int code = 0) {
    EXPECT_EQ(shell("$convoy checkpoint " + command + " --json 2> errors"), code) << output_;
    return parse_json(output_, command);
  }

  /// Flips a bit so many bytes before the end of a file.
  void flip(const std::string& file, size_t from_end) const {
    auto bytes = read_file(folder_ / file);
    bytes[bytes.size() - from_end] ^= 1;
    write_file(folder_ / file, bytes);
  }
};

TEST_F(CheckpointCommand, InspectShowsTensorsSizesAndOrigin) {
  ASSERT_EQ(run("checkpoint inspect out/checkpoint-2"), 0) << output_;
  expect("a checkpoint, of step 2, epoch ");
  expect("written by convoy");
  expect("model-00001-of-0");
  expect("optimizer-00001-of-0");
  expect("exp_avg_sq.transformer.h.1.mlp.c_fc.weight");
  expect("[16, 64]");
  const auto all = json_of("inspect out/checkpoint-2");
  const auto config = json("out/config.json");
  int64_t weights = 0, elements = 0;
  for (const auto& tensor : all["tensors"]) {
    int64_t count = 1;
    for (const int64_t extent : tensor["shape"]) count *= extent;
    EXPECT_EQ(tensor["bytes"], count * 4) << tensor;
    const bool is_weight = tensor["file"].get<std::string>().starts_with("model-");
    weights += is_weight;
    elements += is_weight ? count : 0;
  }
  EXPECT_EQ(all["num_parameters"], elements);
  EXPECT_EQ(all["tensors"].size(), 3 * weights) << "each weight has two moments";
  EXPECT_EQ(all["step"], 2);
  EXPECT_EQ(json_of("inspect out")["kind"], "model of a run");
}

TEST_F(CheckpointCommand, ARunThatHasNotEndedStandsForItsNewestCheckpoint) {
  ASSERT_EQ(shell("rm out/model*"), 0);
  EXPECT_EQ(json_of("inspect out")["folder"], "out/checkpoint-4");
  EXPECT_EQ(json_of("verify out")[0]["folder"], "out/checkpoint-4");
  for (const char* command : {"inspect", "verify", "export", "inspect words", "verify none"}) {
    const bool named = std::string(command).find(' ') != std::string::npos;
    EXPECT_NE(run(fmt::format("checkpoint {} {}", command, named ? "" : "words new")), 0)
        << output_;
  }
  expect("'none' is no folder");
  EXPECT_EQ(run("checkpoint verify words"), 1);
  expect("words holds no weights and no checkpoint");
}

// As of a run that went on after its end and was stopped.
TEST_F(CheckpointCommand, ACheckpointBeyondTheModelIsToldOf) {
  ASSERT_EQ(run("checkpoint inspect out"), 0);
  EXPECT_EQ(output_.find("warning"), std::string::npos) << output_;
  fs::copy(folder_ / "out/checkpoint-4", folder_ / "out/checkpoint-9", fs::copy_options::recursive);
  for (const char* command : {"checkpoint inspect out", "checkpoint export out model",
                              "eval out --data text.txt", "generate out --prompt w1"}) {
    ASSERT_EQ(run(command), 0) << output_;
    expect("the model of out is of step 4, and a checkpoint there of step 9");
  }
  // Who goes on from an earlier one hears what `latest` means from now on.
  ASSERT_EQ(run("train out/run.toml --resume_from_checkpoint out/checkpoint-2 --output_dir out "
                "--save_total_limit 2"),
            0)
      << output_;
  expect("goes on from out/checkpoint-2, and leaves checkpoint-9 behind");
  EXPECT_TRUE(fs::exists(folder_ / "out/checkpoint-2") && fs::exists(folder_ / "out/checkpoint-4"));
  EXPECT_FALSE(fs::exists(folder_ / "out/checkpoint-9"));
}

// As of a run that went back and was stopped before its end: neither number is the greater one.
TEST_F(CheckpointCommand, AModelThatWasLeftBehindIsToldOf) {
  const std::string again =
      "train out/run.toml --output_dir out --resume_from_checkpoint out/checkpoint-2 "
      "--max_steps 4 ";
  ASSERT_NE(shell("CONVOY_FAULT=exit@0:forward:3 $convoy " + again), 0) << output_;
  for (const char* command :
       {"checkpoint inspect out", "eval out --data text.txt", "generate out --prompt w1",
        "train --model_name_or_path out --train_file text.txt --block_size 8 --max_steps 1 "
        "--output_dir more --overwrite_output_dir"}) {
    ASSERT_EQ(run(command), 0) << output_;
    expect("the model of out is of step 4, which the run left behind when it went back");
    expect("for that one try out/checkpoint-2");
    EXPECT_EQ(output_.find("left behind"), output_.rfind("left behind")) << output_;
  }
  ASSERT_EQ(run(again), 0) << output_;
  ASSERT_EQ(run("eval out --data text.txt"), 0) << output_;
  EXPECT_EQ(output_.find("warning"), std::string::npos) << output_;
}

TEST_F(CheckpointCommand, VerifyNamesEachTensorThatIsWrongMissingOrLeftOver) {
  ASSERT_EQ(run("checkpoint verify out"), 0) << output_;
  expect("with the checksums in manifest.json");
  expect("there is no manifest.json");
  expect("no errors");
  const auto list = json_of("verify out/checkpoint-4")[0];
  EXPECT_EQ(list["num_tensors"], json_of("inspect out/checkpoint-4")["tensors"].size());

  const std::string moments = json("out/checkpoint-4/optimizer.safetensors.index.json")
                                  .at("weight_map")
                                  .at("exp_avg_sq.transformer.wte.weight");
  flip("out/checkpoint-4/" + moments, 5);
  ASSERT_EQ(run("checkpoint verify out/checkpoint-4"), 1) << output_;
  expect("exp_avg_sq.transformer.wte.weight in " + moments + " is not as it was written");
  flip("out/checkpoint-4/" + moments, 5);

  const std::string shard = json("out/checkpoint-4/model.safetensors.index.json")
                                .at("weight_map")
                                .at("transformer.ln_f.bias");
  ASSERT_EQ(shell(fmt::format("mv out/checkpoint-4/{} kept; cp kept "
                              "out/checkpoint-4/stranger.safetensors",
                              shard)),
            0);
  const auto found = json_of("verify out/checkpoint-4", 1)[0]["wrong"].dump();
  EXPECT_NE(found.find(shard + " is missing, with "), std::string::npos) << found;
  EXPECT_NE(found.find("stranger.safetensors is left over, with "), std::string::npos) << found;
  EXPECT_NE(found.find(" tensors (transformer."), std::string::npos) << found;
  ASSERT_EQ(
      shell("cd out/checkpoint-4; rm stranger.safetensors; head -c 3000 ../../kept > " + shard), 0);
  ASSERT_EQ(run("checkpoint verify out/checkpoint-4"), 1) << output_;
  expect("the file is cut short");
}

TEST_F(CheckpointCommand, VerifyReadsWhatARunNeedsToGoOn) {
  ASSERT_EQ(shell("cd out/checkpoint-4; head -c 20 trainer_state.json > cut; "
                  "mv cut trainer_state.json"),
            0);
  ASSERT_EQ(run("checkpoint verify out/checkpoint-4"), 1) << output_;
  expect("trainer_state.json is not valid JSON");
  fs::remove(folder_ / "out/checkpoint-4/trainer_state.json");
  fs::remove(folder_ / "out/checkpoint-4/optimizer.safetensors.index.json");
  ASSERT_EQ(run("checkpoint verify out/checkpoint-4"), 1) << output_;
  expect("there is no trainer_state.json");
  expect("there is no index of the shards of optimizer.safetensors");
}

TEST_F(CheckpointCommand, VerifyOfARunReadsANewerCheckpointThatIsNotWhole) {
  ASSERT_EQ(shell("cp -r out/checkpoint-4 out/checkpoint-6; rm out/checkpoint-6/trainer_state.json "
                  "out/checkpoint-6/optimizer*"),
            0);
  ASSERT_EQ(run("checkpoint verify out"), 1) << output_;
  expect("folder     out/checkpoint-4");
  expect("there is no trainer_state.json: no run can go on from here");
  expect("optimizer-00001-of-0");
  expect(" is missing, with ");
  ASSERT_EQ(shell("rm -r out/checkpoint-6; ln -s nowhere out/checkpoint-6"), 0);
  ASSERT_EQ(run("checkpoint verify out"), 1) << output_;
  expect("out/checkpoint-6 cannot be read: No such file or directory");
  // Nothing else there: still no reason to say that all is well.
  ASSERT_EQ(shell("rm -r out/model* out/checkpoint-[24]"), 0);
  EXPECT_EQ(run("checkpoint verify out"), 1) << output_;
  expect("out/checkpoint-6 cannot be read");
}

TEST_F(CheckpointCommand, VerifyOfARunThatGoesOnFindsNoDamage) {
  ASSERT_EQ(shell("rm -r out/model* out/checkpoint-2; (step=4; while [ ! -e over ]; do "
                  "cp -r out/checkpoint-$step out/.new; mv out/.new out/checkpoint-$((step + 1)); "
                  "mv out/checkpoint-$step out/.old; rm -r out/.old; step=$((step + 1)); done) & "
                  "code=0; for i in $(seq 12); do $convoy checkpoint verify out || code=1; done; "
                  "touch over; wait; exit $code"),
            0)
      << output_;
}

TEST_F(CheckpointCommand, NamesCannotSpeakToTheTerminal) {
  const std::string header = R"({"a\u001b[2J":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})";
  std::string bytes(8, '\0');
  bytes[0] = static_cast<char>(header.size());
  write_file(folder_ / "odd/model.safetensors", bytes + header + std::string("\0\0\xc0\x7f", 4));
  for (const char* command : {"inspect odd", "verify odd", "export odd new"}) {
    run(std::string("checkpoint ") + command);
    expect(R"(a\x1b[2J)");
    EXPECT_EQ(output_.find('\x1b'), std::string::npos) << command;
  }
}

TEST_F(CheckpointCommand, VerifyNamesTensorsThatAreNotFiniteWithoutAManifest) {
  const std::string shard =
      json("out/model.safetensors.index.json").at("weight_map").at("transformer.wte.weight");
  auto bytes = read_file(folder_ / "out" / shard);
  bytes.replace(bytes.size() - 4, 4, std::string("\0\0\xc0\x7f", 4));  // the last tensor by name
  write_file(folder_ / "out" / shard, bytes);
  ASSERT_EQ(run("checkpoint verify out"), 1) << output_;
  expect("holds numbers that are not finite");
  expect("transformer.w");
}

TEST_F(CheckpointCommand, ExportWritesTheModelAloneInAnotherDtype) {
  ASSERT_EQ(run("checkpoint export out/checkpoint-4 half --dtype bf16"), 0) << output_;
  expect("config.json");
  const auto before = json_of("inspect out/checkpoint-4"), after = json_of("inspect half");
  EXPECT_EQ(after["num_parameters"], before["num_parameters"]);
  EXPECT_EQ(after["weights"], Json::array({"model.safetensors"})) << "below 5GB";
  for (const auto& tensor : after["tensors"]) EXPECT_EQ(tensor["dtype"], "BF16");
  EXPECT_EQ(json("half/config.json")["torch_dtype"], "bfloat16");
  EXPECT_TRUE(fs::exists(folder_ / "half/vocab.txt"));
  for (const char* of_training :
       {"trainer_state.json", "manifest.json", "optimizer.safetensors.index.json"}) {
    EXPECT_FALSE(fs::exists(folder_ / "half" / of_training)) << of_training;
  }
  // Back again it is what bf16 kept of it: the model computes nearly the same.
  ASSERT_EQ(run("checkpoint export half full --dtype fp32 --max_shard_size 8KB"), 0) << output_;
  EXPECT_GT(json_of("inspect full")["weights"].size(), 1u);
  ASSERT_EQ(shell("$convoy eval out --data text.txt --json > a.json && "
                  "$convoy eval full --data text.txt --json > b.json"),
            0)
      << output_;
  EXPECT_NEAR(json("a.json")["eval_loss"], json("b.json")["eval_loss"], 1e-2);
  ASSERT_EQ(run("checkpoint export out/checkpoint-4 same"), 0) << output_;
  ASSERT_EQ(shell("$convoy eval same --data text.txt --json > c.json"), 0) << output_;
  EXPECT_EQ(json("a.json")["eval_loss"], json("c.json")["eval_loss"]);
}

TEST_F(CheckpointCommand, AnExportThatFailsLeavesNothing) {
  fs::create_directory(folder_ / "there");
  write_file(folder_ / "there/file", "mine");
  EXPECT_EQ(run("checkpoint export out there"), 1) << output_;
  expect("there is there already; try another folder");
  EXPECT_EQ(run("checkpoint export out new --dtype int8"), 2) << output_;
  EXPECT_EQ(run("checkpoint export out new --max_shard_size 5pounds"), 2) << output_;
  expect("expected a size such as 5GB");
  flip("out/checkpoint-4/" + std::string(json_of("inspect out/checkpoint-4")["weights"][0]), 3);
  EXPECT_EQ(run("checkpoint export out/checkpoint-4 new --dtype fp16"), 1) << output_;
  expect("is not as it was written");
  EXPECT_EQ(shell("(ulimit -f 8; exec $convoy checkpoint export out new)"), 1) << output_;
  for (const auto& entry : fs::directory_iterator(folder_)) {
    const auto name = entry.path().filename().string();
    EXPECT_EQ(name.find("new"), std::string::npos) << name << " is left";
  }
}

}  // namespace
}  // namespace convoy
