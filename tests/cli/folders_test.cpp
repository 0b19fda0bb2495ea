#include <fmt/format.h>

#include "convoy/base/host_name.h"
#include "tests/cli/command_testing.h"

// What must not be lost or mixed: two runs in one folder, inputs as outputs, disks that are full.
namespace convoy {
namespace {

class FoldersCommand : public CommandTest {
 protected:
  void SetUp() override {
    CommandTest::SetUp();
    make_sessions();
  }

  void expect_not(const std::string& part) const {
    EXPECT_EQ(output_.find(part), std::string::npos) << part << "\nis in:\n" << output_;
  }
};

TEST_F(FoldersCommand, ASecondRunInTheSameFolderIsRefusedWhileTheFirstLives) {
  const auto train = "train" + kTiny + "--output_dir out --save_steps 50 ";
  // Joined, and after two minutes ended, also where this test fails before it kills the run.
  std::jthread first([this, train] {
    const auto command =
        fmt::format("cd {} && exec timeout 120 {}/bin/convoy {} --max_steps 1000000 > first",
                    folder_.string(), CONVOY_BINARY_DIR, train);
    EXPECT_NE(std::system(command.c_str()), 0);
  });
  wait_for_steps();
  const auto holder = read_file(folder_ / "out/.lock");
  const auto pid = holder.substr(8, holder.find(' ', 8) - 8);
  EXPECT_EQ(holder, fmt::format("process {} on {}\n", pid, host_name()));
  // What the first is about to rename.
  const auto half = AtomicFolder(folder_ / "out/checkpoint-77").temporary();
  fs::create_directory(half);
  const auto refused = fmt::format(
      "output.dir = out is in use by process {} on {}; try another folder, or wait until that run "
      "has ended",
      pid, host_name());
  for (const char* how : {"", "--overwrite_output_dir", "--resume_from_checkpoint latest",
                          "--nproc 2 --overwrite_output_dir"}) {
    EXPECT_NE(run(train + "--max_steps 3 " + how), 0) << output_;
    expect(refused);
  }
  EXPECT_TRUE(fs::exists(half));
  ASSERT_EQ(shell("kill -9 " + pid), 0) << output_;
  first.join();
  ASSERT_EQ(run(train + "--max_steps 3 --overwrite_output_dir --nproc 2"), 0) << output_;
  EXPECT_FALSE(fs::exists(half)) << "now it is a left-over";
  EXPECT_FALSE(fs::exists(folder_ / "out/.lock"));
  EXPECT_FALSE(fs::exists(folder_ / "out/checkpoint-50")) << "the first run is gone";
}

TEST_F(FoldersCommand, ARunWhoseFolderWasMovedDoesNotWriteBesideAnother) {
  const std::string start = "timeout 100 $convoy train" + kTiny +
                            "--output_dir out --save_steps 1000 --max_steps 100000 > first & "
                            "until [ -s out/log.jsonl ]; do sleep 0.02; done; ";
  // The folder that takes its place is somebody's who has locked it.
  EXPECT_EQ(shell("mkdir next; " + start +
                  "exec 9> next/.lock; flock -n 9 || exit 9; echo process 7 on node7 >&9; "
                  "mv out moved; mv next out; wait $!"),
            1)
      << output_;
  expect(
      "output.dir = out was moved away while this run went on, and now it is in use by process 7 "
      "on node7; what was saved before lies where it was moved to");
  for (const auto& entry : fs::directory_iterator(folder_ / "out")) {
    EXPECT_EQ(entry.path().filename(), ".lock") << "of the first run";
  }
  // With nobody there it goes on, in a folder that it holds.
  fs::remove_all(folder_ / "out");
  fs::remove_all(folder_ / "moved");
  EXPECT_EQ(shell(start + "mv out moved; until ls out 2> /dev/null | grep -q checkpoint; do "
                          "sleep 0.02; done; flock -n out/.lock true; locked=$?; kill $!; wait $!; "
                          "exit $locked"),
            1)
      << output_;
  const auto told = read_file(folder_ / "first");
  EXPECT_NE(told.find("out was moved away while this run goes on"), std::string::npos) << told;
  const auto log = read_file(folder_ / "out/log.jsonl");
  EXPECT_NE(log.find("out was moved away while this run goes on"), std::string::npos) << log;
}

TEST_F(FoldersCommand, NamesThatFilesOfARunCannotHoldAreRefusedBeforeTraining) {
  for (const char* ranks : {"", "launch -n 2 "}) {
    EXPECT_EQ(shell(fmt::format("$convoy {}train{}--max_steps 2 --output_dir $(printf 'out\\377')",
                                ranks, kTiny)),
              2)
        << output_;
    expect("output.dir = out\\xff is not UTF-8");
  }
  EXPECT_EQ(shell("ls | grep -q out"), 1) << "nothing was made";
  // The folder's own name is part of what a run keeps of paths.
  EXPECT_EQ(
      shell("here=$(printf 'here\\377'); mkdir $here; cp -r syn $here; cd $here; $convoy train" +
            kTiny + "--max_steps 2 --output_dir out"),
      2)
      << output_;
  expect("is not UTF-8, and the files of a run hold nothing else");
}

TEST_F(FoldersCommand, FoldersOfDataAreNoOutput) {
  const auto schema = read_file(folder_ / "syn/schema.json");
  const auto items = read_file(folder_ / "syn/items.parquet");
  for (const char* how : {"--output_dir syn", "--output_dir ./syn/ --overwrite_output_dir",
                          "--output_dir syn --resume_from_checkpoint latest --nproc 2"}) {
    EXPECT_EQ(run("train" + kTiny + "--max_steps 2 " + how), 2) << output_;
    expect("is the folder of the data syn/");
  }
  // The data of others.
  ASSERT_EQ(run("data synthetic --output other --items 9 --rows 20"), 0) << output_;
  const auto theirs = read_file(folder_ / "other/schema.json");
  for (const char* how : {"", "--overwrite_output_dir"}) {
    EXPECT_EQ(run("train" + kTiny + "--max_steps 2 --output_dir other " + how), 2) << output_;
    expect("output.dir = other holds no run, but a file schema.json that this run would replace");
  }
  EXPECT_EQ(read_file(folder_ / "syn/schema.json"), schema);
  EXPECT_EQ(read_file(folder_ / "syn/items.parquet"), items);
  EXPECT_EQ(read_file(folder_ / "other/schema.json"), theirs);
}

TEST_F(FoldersCommand, OutputsDoNotReplaceInputs) {
  ASSERT_EQ(run("train" + kTiny + "--max_steps 2 --output_dir out"), 0) << output_;
  for (const char* input : {"syn/valid.parquet", "out/items.parquet", "syn/../syn/train.parquet"}) {
    const auto before = read_file(folder_ / input);
    EXPECT_EQ(
        run(fmt::format("predict out --data {} --output {}",
                        fs::path(input).filename() == "train.parquet" ? "'syn/tr*.parquet'" : "syn",
                        input)),
        2)
        << output_;
    expect(fmt::format("the output {} would replace the input", input));
    EXPECT_EQ(read_file(folder_ / input), before) << input;
  }
  for (const char* how : {"first", "again"}) {
    EXPECT_EQ(run("predict out --data syn --output out/top.parquet"), 0) << how << output_;
  }
  const auto log = read_file(folder_ / "out/log.jsonl");
  EXPECT_EQ(run("predict out --data syn --output out/log.jsonl"), 2) << output_;
  expect("--output out/log.jsonl would replace a file of");
  EXPECT_EQ(read_file(folder_ / "out/log.jsonl"), log);
  fs::copy_file(folder_ / "syn/items.parquet", folder_ / "syn/kind.parquet");
  EXPECT_EQ(run("predict out --output syn/kind.parquet"), 2) << output_;
  expect("--output syn/kind.parquet would replace a file of");
  fs::remove(folder_ / "syn/kind.parquet");
  // Nor what is not read, but belongs to the data.
  EXPECT_EQ(run("predict out --data syn --output syn/train.parquet"), 2) << output_;
  expect("the output syn/train.parquet would replace the input");
  fs::create_directory(folder_ / "events");
  write_file(folder_ / "events/train.csv", "user,item,time\nu,a,1\nu,b,2\nu,a,3\nv,a,1\nv,b,2\n");
  fs::rename(folder_ / "events/train.csv", folder_ / "events/schema.json");
  const auto before = read_file(folder_ / "events/schema.json");
  fs::create_symlink("schema.json", folder_ / "events/events.csv");
  EXPECT_EQ(run("data sessions events/events.csv --output events"), 2) << output_;
  expect("the output events/schema.json would replace the input events/events.csv");
  EXPECT_EQ(read_file(folder_ / "events/schema.json"), before);
}

TEST_F(FoldersCommand, AFullDiskCostsNoTraining) {
  fs::create_directory(folder_ / "out");
  fs::create_symlink("/dev/full", folder_ / "out/log.jsonl");
  for (const char* quiet : {"", "--output.quiet"}) {
    ASSERT_EQ(
        run("train" + kTiny + "--max_steps 6 --overwrite_output_dir --output_dir out " + quiet), 0)
        << output_;
    expect("warning: out/log.jsonl takes no more (No space left on device)");
    expect("warning: out/log.jsonl lacks its last");
  }
  const std::string limited = "ulimit -f 2; $convoy train" + kTiny;
  ASSERT_EQ(shell(limited + "--max_steps 60 --report_to tensorboard --logging_dir tb"), 0)
      << output_;
  expect("warning: tb/events.out.tfevents.");
  expect(" takes no more (File too large)");
  ASSERT_EQ(shell(limited + "--max_steps 8 --trace t.json"), 0) << output_;
  expect("warning: [train] the trace t.json could not be written whole");
  EXPECT_FALSE(fs::exists(folder_ / "t.json"));
  ASSERT_EQ(run("train" + kTiny + "--max_steps 8 --trace t.json"), 0) << output_;
  expect("wrote the trace t.json");
  for (const auto& entry : fs::directory_iterator(folder_)) {
    EXPECT_EQ(entry.path().string().find(".tmp"), std::string::npos) << entry.path();
  }
}

TEST_F(FoldersCommand, ResultsThatCannotBePrintedAreAnError) {
  ASSERT_EQ(run("train" + kTiny + "--max_steps 2 --output_dir out"), 0) << output_;
  for (const char* command : {"eval out --json", "eval out", "predict out", "predict out --rows 1",
                              "data inspect syn", "train --print-config", "train --help"}) {
    EXPECT_EQ(shell(fmt::format("$convoy {} > /dev/full", command)), 1) << command << output_;
    expect("cannot write to the standard output: No space left on device");
  }
  ASSERT_EQ(shell("$convoy train" + kTiny + "--max_steps 120 --output_dir more > /dev/full"), 0)
      << output_;
  EXPECT_TRUE(fs::exists(folder_ / "more/model.safetensors")) << "progress is no result";
  expect_not("error");
}

TEST_F(FoldersCommand, AdamWsNumbersMustMakeSense) {
  for (const char* option : {"--adam_beta1 1", "--adam_beta2 1", "--adam_epsilon 0"}) {
    EXPECT_EQ(run("train" + kTiny + "--max_steps 2 " + option), 2) << output_;
    expect("is out of range; expected");
  }
}

}  // namespace
}  // namespace convoy
