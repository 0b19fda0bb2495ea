#include <fcntl.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <random>
#include <regex>

#include "convoy/base/timing.h"
#include "tests/cli/kept_memory_testing.h"

// Ranks that end in every way while their state is copied to memory: they go on from there, to the
// bits of a run that nothing disturbs.
namespace convoy {
namespace {

class MemoryCopies : public KeptMemoryCommand {
 protected:
  static std::string train(const std::string& ranks, const std::string& options) {
    return fmt::format(
        "$convoy launch -n {} --max-restarts 6 train{}--max_steps {} "
        "--ddp_timeout 3 --bucket_cap_mb 0 {} ",
        ranks, kTiny, kSteps, options);
  }

  /// Weights of a run of these options that nothing disturbs.
  std::string calm(const std::string& ranks, const std::string& options) {
    const auto name = fmt::format("calm-{}", calm_.size());
    const auto [known, is_new] = calm_.emplace(ranks + options, name);
    if (is_new) {
      EXPECT_EQ(shell("TMPDIR=tmp " + train(ranks, options) +
                      "--memory_copy_steps 0 --output_dir " + name),
                0)
          << output_;
    }
    return model_of(known->second);
  }

  /// Trains with these faults in `out`, and compares its weights with the calm run's.
  void try_faults(const std::string& faults, const std::string& ranks, const std::string& options,
                  const std::string& more) {
    SCOPED_TRACE(
        fmt::format("CONVOY_FAULT={} convoy launch -n {} ... {} {}", faults, ranks, options, more));
    const auto expected = calm(ranks, options);
    fs::remove_all(folder_ / "out");
    const int code =
        shell(fmt::format("TMPDIR=tmp CONVOY_FAULT={} timeout 120 {} {} --output_dir out", faults,
                          train(ranks, options), more));
    ASSERT_EQ(code, 0) << output_;
    EXPECT_TRUE(model_of("out") == expected) << "other bits: " << output_;
    expect_nothing_left();
  }

  /// Steps of the copies from which starts went on.
  std::vector<int64_t> steps_gone_on_from() const {
    static const std::regex kLine(R"(going on from the memory copy of step (\d+))");
    std::vector<int64_t> out;
    for (auto found = std::sregex_iterator(output_.begin(), output_.end(), kLine);
         found != std::sregex_iterator(); ++found) {
      out.push_back(std::stoll((*found)[1]));
    }
    return out;
  }

  /// The folder of a copy, once it is there.
  fs::path wait_for_copy(int64_t step) const {
    const auto began = std::chrono::steady_clock::now();
    while (seconds_since(began) < 30) {
      std::error_code ignored;
      for (const auto& entry : fs::directory_iterator(folder_ / "tmp", ignored)) {
        const auto copy = entry.path() / fmt::format("memory/checkpoint-{}", step);
        if (fs::exists(copy, ignored)) return copy;
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    ADD_FAILURE() << "there was no copy of step " << step;
    return {};
  }

  /// Runs `while_it_hangs` when the copy of step 7 is there and rank 1 hangs in step 8.
  void try_hang(const std::string& options, const std::string& more,
                const std::function<void(const fs::path& copy)>& while_it_hangs) {
    std::thread other([&] { while_it_hangs(wait_for_copy(7)); });
    try_faults("slow@1:forward:8", "2", options, more);
    other.join();
  }

  std::map<std::string, std::string> calm_;  // [options] folder
};

TEST_F(MemoryCopies, AtMostTheCopysStepsAreMadeAgain) {
  for (const int every : {1, 3}) {
    try_faults("sigkill@1:forward:8", "2", "--save_strategy no",
               fmt::format("--memory_copy_steps {}", every));
    EXPECT_EQ(steps_gone_on_from(), (std::vector<int64_t>{every == 1 ? 7 : 6})) << output_;
    expect(every == 1 ? "to memory every step; two take" : "to memory every 3 steps; two take");
  }
}

TEST_F(MemoryCopies, DeathInACopyLeavesTheOneBefore) {
  for (const std::string phase : {"copy", "copy_sum", "copy_end"}) {
    try_faults(fmt::format("sigkill@0:{}:8", phase), "2", "--zero 3 --save_strategy no",
               "--memory_copy_steps 2");
    EXPECT_EQ(steps_gone_on_from(), (std::vector<int64_t>{6})) << output_;
  }
}

TEST_F(MemoryCopies, DiskIsReadWhereItIsFurther) {
  try_faults("sigkill@1:forward:8", "2", "--save_strategy steps --save_steps 7 --save_async false",
             "--memory_copy_steps 5");
  expect("start 2: going on from out/checkpoint-7");
}

// What memory holds may be the reason.
TEST_F(MemoryCopies, AStepThatFailsAgainTakesTheDisk) {
  try_faults("exit@1:forward:8,exit@1:forward:8:1", "2",
             "--save_strategy steps --save_steps 5 --save_async false", "--memory_copy_steps 1");
  EXPECT_EQ(steps_gone_on_from(), (std::vector<int64_t>{7})) << output_;
  expect("start 3: going on from out/checkpoint-5");
}

TEST_F(MemoryCopies, AFlippedBitIsNoticedAndTheCopyBeforeTaken) {
  try_hang("--save_strategy no", "--memory_copy_steps 1", [](const fs::path& copy) {
    const int file = ::open((copy / "model.safetensors").c_str(), O_RDWR);
    const auto last = ::lseek(file, -1, SEEK_END);
    char byte = 0;
    EXPECT_EQ(::pread(file, &byte, 1, last), 1);
    byte = static_cast<char>(byte ^ 1);
    EXPECT_EQ(::pwrite(file, &byte, 1, last), 1);
    ::close(file);
  });
  expect("warning: the memory copy of step 7 is passed over:");
  expect("is not as it was written");
  EXPECT_EQ(steps_gone_on_from(), (std::vector<int64_t>{6})) << output_;
}

// A save that was under way when the ranks died is missing for ever.
TEST_F(MemoryCopies, ACopyWhoseBestCheckpointIsMissingIsPassedOver) {
  const std::string options =
      "--save_strategy steps --save_steps 7 --eval_strategy steps --eval_steps 7 "
      "--load_best_model_at_end true";
  try_hang(options, "--memory_copy_steps 1",
           [this](const fs::path&) { fs::remove_all(folder_ / "out/checkpoint-7"); });
  expect("warning: the memory copy of step 7 is passed over: the checkpoint of its best step 7");
  EXPECT_EQ(steps_gone_on_from(), (std::vector<int64_t>{6})) << output_;
}

TEST_F(MemoryCopies, ASaveThatWasLostIsMadeUp) {
  try_hang("--save_strategy steps --save_steps 7", "--memory_copy_steps 1",
           [this](const fs::path&) { fs::remove_all(folder_ / "out/checkpoint-7"); });
  EXPECT_EQ(steps_gone_on_from(), (std::vector<int64_t>{7})) << output_;
  EXPECT_TRUE(fs::exists(folder_ / "out/checkpoint-7/trainer_state.json")) << output_;
}

// What the run wrote so far is its own, and not a former run's.
TEST_F(MemoryCopies, GoesOnInAFolderThatItOverwrote) {
  const std::string options = "--save_strategy no --overwrite_output_dir --report_to tensorboard";
  const auto expected = calm("2", options);
  ASSERT_EQ(shell(train("2", "--save_strategy no --seed 5 --output_dir out")), 0) << output_;
  ASSERT_EQ(shell("CONVOY_FAULT=sigkill@1:forward:8 " + train("2", options) +
                  "--memory_copy_steps 3 --output_dir out"),
            0)
      << output_;
  EXPECT_EQ(steps_gone_on_from(), (std::vector<int64_t>{6})) << output_;
  EXPECT_TRUE(model_of("out") == expected);
  EXPECT_EQ(losses("out").size(), static_cast<size_t>(kSteps));
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_ / "out/runs"), {}), 2)
      << "curves of both starts";
}

TEST_F(MemoryCopies, AreFurtherThanANamedCheckpoint) {
  ASSERT_EQ(shell(train("2", "--stop_steps 4 --save_steps 4 --output_dir first")), 0) << output_;
  const std::string options = "--save_strategy no --resume_from_checkpoint ../first/checkpoint-4 ";
  const auto in = [](const std::string& folder) {
    return "mkdir -p " + folder + "; cd " + folder + "; ln -sfn ../syn syn; ";
  };
  ASSERT_EQ(shell(in("a") + train("2", options) + "--output_dir out"), 0) << output_;
  ASSERT_EQ(shell(in("b") + "CONVOY_FAULT=sigkill@1:forward:8 " + train("2", options) +
                  "--memory_copy_steps 3 --output_dir out"),
            0)
      << output_;
  EXPECT_EQ(steps_gone_on_from(), (std::vector<int64_t>{6})) << output_;
  EXPECT_TRUE(model_of("a/out") == model_of("b/out"));
}

// A start that began with what a copy left behind would have other numbers.
TEST_F(MemoryCopies, NothingBeginsWithTheWeightsOfADamagedCopy) {
  const auto damage = [this](const fs::path& copy) {
    std::error_code ignored;
    fs::remove_all(copy.parent_path() / "checkpoint-6", ignored);
    std::fstream file(copy / "optimizer.safetensors", std::ios::in | std::ios::out);
    file.seekp(-1, std::ios::end).put('x');
  };
  try_hang("--save_strategy no", "--memory_copy_steps 1", damage);
  expect("no memory copy is whole, and there is no checkpoint in out; start again to begin anew");
  expect("start 3: beginning anew, for there is nothing to go on from");
}

// Of another training's state nobody goes on, whatever the step.
TEST_F(MemoryCopies, BelongToTheirRun) {
  write_file(
      folder_ / "two.sh",
      fmt::format(
          "set -e\n$1 train{0}--max_steps {1} --save_strategy no "
          "--memory_copy_steps 2 --overwrite_output_dir --output_dir a\n"
          "CONVOY_FAULT=$2 $1 train{0}--max_steps {1} --save_strategy no --learning_rate 1e-2 "
          "--memory_copy_steps 2 --overwrite_output_dir --output_dir b\n",
          kTiny, kSteps));
  const std::string launch =
      "TMPDIR=tmp $convoy launch -n 1 --max-restarts 2 -- sh two.sh $convoy ";
  ASSERT_EQ(shell(launch), 0) << output_;
  const auto a = model_of("a"), b = model_of("b");
  fs::remove_all(folder_ / "a");
  fs::remove_all(folder_ / "b");
  ASSERT_EQ(shell(launch + "sigkill@0:forward:8"), 0) << output_;
  EXPECT_TRUE(model_of("a") == a) << output_;
  EXPECT_TRUE(model_of("b") == b) << output_;
}

TEST_F(MemoryCopies, BelongToTheirOptions) {
  write_file(folder_ / "two.sh",
             fmt::format("set -e\nfor lr in 1e-3 1e-2; do\n"
                         "[ $lr = 1e-2 ] && export CONVOY_FAULT=$2\n"
                         "$1 train{}--max_steps {} --save_strategy no --learning_rate $lr "
                         "--memory_copy_steps 2 --overwrite_output_dir --output_dir a\n"
                         "cp a/model.safetensors $lr.safetensors\nunset CONVOY_FAULT\ndone\n",
                         kTiny, kSteps));
  const std::string launch =
      "TMPDIR=tmp $convoy launch -n 1 --max-restarts 2 -- sh two.sh $convoy ";
  ASSERT_EQ(shell(launch + "''"), 0) << output_;
  const auto first = read_file(folder_ / "1e-3.safetensors");
  const auto second = read_file(folder_ / "1e-2.safetensors");
  ASSERT_EQ(shell(launch + "sigkill@0:forward:8"), 0) << output_;
  expect("starting all ranks again");
  EXPECT_TRUE(read_file(folder_ / "1e-3.safetensors") == first) << output_;
  EXPECT_TRUE(read_file(folder_ / "1e-2.safetensors") == second) << output_;
}

TEST_F(MemoryCopies, AreOneTrainingsAtATime) {
  write_file(folder_ / "two.sh",
             fmt::format("$1 train{0}--max_steps 40 --save_strategy no --memory_copy_steps 1 "
                         "--overwrite_output_dir --output_dir a & a=$!\n"
                         "$1 train{0}--d_model 16 --max_steps 40 --save_strategy no "
                         "--memory_copy_steps 1 --overwrite_output_dir --output_dir b & b=$!\n"
                         "wait $a && wait $b\n",
                         kTiny));
  EXPECT_EQ(shell("TMPDIR=tmp $convoy launch -n 1 --max-restarts 1 -- sh two.sh $convoy"), 0)
      << output_;
  EXPECT_FALSE(says("starting all ranks again")) << output_;
}

TEST_F(MemoryCopies, AreRefusedWhereNoRestartGoesOn) {
  EXPECT_EQ(
      shell(train("1", "--resume_from_checkpoint false --memory_copy_steps 5 --output_dir o")), 2);
  expect("is for restarts that go on, which resume_from_checkpoint = false forbids");
}

TEST_F(MemoryCopies, AreMadeByDefaultWhereTheyFit) {
  ASSERT_EQ(shell(train("2", "--save_strategy no --output_dir out")), 0) << output_;
  expect("copies to memory every 10 steps, or less often where that is over 1 % of the time");
  ASSERT_EQ(shell(train("2",
                        "--save_strategy no --output_dir rows --row_tables true "
                        "--sampled_softmax true --max_n_samples 10")),
            0)
      << output_;
  EXPECT_FALSE(says("to memory every")) << output_;
}

TEST_F(MemoryCopies, AreRefusedWhereNobodyKeepsThem) {
  const std::string options = kTiny + "--max_steps 2 --output_dir out --memory_copy_steps 5 ";
  EXPECT_EQ(run("train" + options), 2);
  expect("memory_copy_steps = 5 needs convoy launch --max-restarts 1 or more");
  EXPECT_EQ(run("launch -n 2 train" + options), 2);
  expect(
      "memory_copy_steps = 5 needs memory that convoy launch keeps with --max-restarts 1 or more");
  EXPECT_EQ(run("launch -n 2 --max-restarts 1 train" + options +
                "--offload_optimizer disk --offload_dir tmp"),
            2);
  expect("memory_copy_steps = 5 is for state in memory, and offload_* keeps it elsewhere");
  EXPECT_EQ(
      run("launch -n 2 --max-restarts 1 train" + kTiny + "--max_steps 2 --memory_copy_steps 5 "),
      2);
  expect("memory_copy_steps = 5 needs a folder of the run; try --output_dir");
}

TEST_F(MemoryCopies, SmallFilesAreAnError) {
  EXPECT_EQ(shell("ulimit -f 24; TMPDIR=tmp " +
                  train("1",
                        "--save_strategy no --memory_copy_steps 5 --output_dir out "
                        "--overwrite_output_dir")),
            0)
      << output_;
  expect("from here on no copies are made: a restart goes on from the last one, or a checkpoint");
  expect("ulimit -f unlimited");
}

/// A number of the environment.
int64_t number_of(const char* name, int64_t otherwise) {
  const char* text = std::getenv(name);
  int64_t number = otherwise;
  return text != nullptr && parse_number(text, number) ? number : otherwise;
}

/// Ten runs with one to three deaths each; CONVOY_DEATHS makes it more, CONVOY_SEED draws others.
TEST_F(MemoryCopies, DrawnDeathsEndWithTheBitsOfACalmRun) {
  const auto seed = number_of("CONVOY_SEED", 1);
  std::mt19937_64 random(static_cast<uint64_t>(seed));
  const auto draw = [&](int64_t least, int64_t most) {
    return std::uniform_int_distribution<int64_t>(least, most)(random);
  };
  const auto one_of = [&](const auto& all) {
    return all[static_cast<size_t>(draw(0, std::ssize(all) - 1))];
  };
  struct Layout {
    int ranks;
    std::string options;
  };
  const std::vector<Layout> layouts = {
      {2, ""},
      {2, "--zero 1"},
      {2, "--zero 2"},
      {3, "--zero 3"},
      {4, "--zero 3 --shard_ranks 2"},
      {2, "--pipeline_parallel_size 2 --gradient_accumulation_steps 2 --n_layer 2"},
      {2, "--tensor_parallel_size 2"},
      {1, "--strategy dp --replicas 2 --device cpu"},
      {2, "--row_tables true --sampled_softmax true --max_n_samples 10"}};
  const std::vector<std::string> phases = {"forward",  "backward", "reduce",     "copy",
                                           "copy_sum", "copy_end", "instruction"};
  const std::vector<std::string> kinds = {"sigkill", "exit", "exception"};
  for (int64_t i = 0; i < number_of("CONVOY_DEATHS", 10); ++i) {
    SCOPED_TRACE(fmt::format("seed {}, run {}", seed, i));
    const auto& layout = layouts[static_cast<size_t>(i) % layouts.size()];
    std::vector<std::string> faults;
    const int64_t deaths = draw(1, 3);
    int64_t step = 0;
    for (int64_t start = 0; start < deaths; ++start) {
      auto phase = one_of(phases);
      if (start > 0 && draw(0, 3) == 0) phase = "resume";
      step = draw(std::min<int64_t>(step + 1, kSteps - 1), kSteps - 1);
      const int64_t rank = phase == "copy_end" ? 0 : draw(0, layout.ranks - 1);
      faults.push_back(fmt::format("{}@{}:{}:{}:{}", one_of(kinds), rank, phase,
                                   phase == "instruction" ? draw(1, 400) : step, start));
    }
    const auto saves =
        draw(0, 1) == 0 ? "--save_strategy no" : "--save_strategy steps --save_steps 4";
    try_faults(join(faults, ","), fmt::format("{}", layout.ranks), layout.options + " " + saves,
               fmt::format("--memory_copy_steps {}", draw(1, 3)));
    if (HasFatalFailure() || HasNonfatalFailure()) break;
  }
}

}  // namespace
}  // namespace convoy
