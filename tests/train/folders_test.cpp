#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstring>

#include "convoy/base/error.h"
#include "convoy/base/files.h"
#include "convoy/base/json.h"
#include "convoy/base/text.h"
#include "convoy/checkpoint/folder.h"
#include "convoy/formats/safetensors.h"
#include "convoy/train/checkpoints/run_files.h"
#include "tests/train/folders_testing.h"

// The folders of runs: which checkpoint, whose, and what several ranks make of them.
namespace convoy::train {
namespace {

TEST_F(Folders, RanksThatSeeOtherFilesGoOnFromWhatRankZeroSees) {
  ASSERT_EQ(train(arguments(folder_ / "a", 6), one_device()).error, "");
  fs::create_directory(folder_ / "b");
  fs::copy(folder_ / "a/checkpoint-2", folder_ / "b/checkpoint-2");
  std::array<options::TrainingArguments, 2> own{arguments(folder_ / "a", 8),
                                                arguments(folder_ / "b", 8)};
  for (auto& each : own) {
    each.per_device_train_batch_size = 2;
    each.resume_from_checkpoint = "latest";
  }
  const auto ends = train_two(own);
  for (const auto& end : ends) {
    ASSERT_EQ(end.error, "");
    EXPECT_EQ(end.state.global_step, 8);
    EXPECT_EQ(end.state.epoch_position, ends[0].state.epoch_position);
    EXPECT_EQ(end.state.log_history, ends[0].state.log_history);
  }
  EXPECT_EQ(ends[0].first_step, 7) << "from checkpoint-6, which rank 1 does not have";
  EXPECT_TRUE(at::equal(ends[0].weights, ends[1].weights));
  EXPECT_TRUE(at::equal(ends[0].moments, ends[1].moments));
}

TEST_F(Folders, RanksAgreeOnWhetherAModelIsThereAndWhichWasBest) {
  auto first = arguments(folder_ / "a", 6);
  first.eval_strategy = "steps";
  first.eval_steps = 2;
  first.load_best_model_at_end = true;
  first.metric_for_best_model = "loss";
  first.greater_is_better = "true";  // an early one
  auto other = first;
  other.output.dir = (folder_ / "empty").string();
  auto ends = train_two({first, other});
  ASSERT_EQ(ends[0].error + ends[1].error, "");
  ASSERT_LT(ends[0].state.best_step, 6);
  EXPECT_EQ(ends[0].state.best_model_checkpoint,
            "checkpoint-" + std::to_string(ends[0].state.best_step));
  EXPECT_TRUE(at::equal(ends[0].weights, ends[1].weights)) << "both end with the best model";
  // Nothing is left to do, and only rank 0 sees that the model is there.
  first.resume_from_checkpoint = other.resume_from_checkpoint = "latest";
  ends = train_two({first, other});
  EXPECT_EQ(ends[0].error + ends[1].error, "");
}

TEST_F(Folders, AllRanksRefuseInTheWordsOfRankZero) {
  ASSERT_EQ(train(arguments(folder_ / "a", 2), one_device()).error, "");
  auto ends = train_two({arguments(folder_ / "a", 4), arguments(folder_ / "b", 4)});
  EXPECT_NE(ends[0].error.find("already holds a run"), std::string::npos) << ends[0].error;
  EXPECT_EQ(ends[1].error, ends[0].error);
  EXPECT_TRUE(ends[0].usage && ends[1].usage);
  EXPECT_FALSE(fs::exists(folder_ / "b"));
}

TEST_F(Folders, RanksAtDifferentStepsStop) {
  run_two_ranks([&](const job::Job& job) {
    const auto strategy = parallel::make_process_strategy(tiny_model(), job.world(), {});
    parallel::StepInput input;
    input.step = job.world().rank() == 0 ? 4 : 9;
    parallel::MicroBatch batch;
    batch.inputs = {{"items", at::ones({2, 3}, at::kLong)},
                    {"lengths", at::full({2}, 3, at::kLong)}};
    batch.samples = at::arange(2, at::kLong);
    try {
      strategy->step({{batch}}, input, {});
      ADD_FAILURE() << "rank " << job.world().rank() << " went on";
    } catch (const CommunicationError& error) {
      EXPECT_NE(std::string(error.what()).find("rank 0 makes step 5, rank 1 step 10"),
                std::string::npos)
          << error.what();
    }
  });
}

TEST_F(Folders, BestCheckpointIsKeptUnderAnySpellingOfTheFolder) {
  auto args = arguments(folder_ / "run", 4);
  args.eval_strategy = "steps";
  args.eval_steps = 2;
  args.load_best_model_at_end = true;
  args.greater_is_better = "true";
  args.metric_for_best_model = "loss";
  args.learning_rate = 0.1;
  args.save_total_limit = 1;
  const auto eval_data = random_sessions(20, 50, 8);
  const auto first = train(args, one_device(), eval_data);
  ASSERT_EQ(first.error, "");
  const auto best = "checkpoint-" + std::to_string(first.state.best_step);
  ASSERT_EQ(best, "checkpoint-2");
  fs::create_symlink(folder_ / "run", folder_ / "link");
  args.max_steps = 6;
  for (const char* spelling : {"run/../run", "./run/", "link"}) {
    args.output.dir = (folder_ / spelling).string();
    args.resume_from_checkpoint = "latest";
    const auto end = train(args, one_device(), eval_data);
    ASSERT_EQ(end.error, "") << spelling;
    EXPECT_TRUE(fs::exists(folder_ / "run" / best)) << spelling;
    EXPECT_TRUE(at::equal(end.weights, first.weights)) << "ends with the best, " << spelling;
    args.max_steps += 2;
  }
  // The run moves, and goes on in yet another folder.
  fs::rename(folder_ / "run", folder_ / "moved");
  args.resume_from_checkpoint = (folder_ / "moved/checkpoint-10").string();
  args.output.dir = (folder_ / "new").string();
  const auto end = train(args, one_device(), eval_data);
  ASSERT_EQ(end.error, "");
  EXPECT_EQ(end.state.best_model_checkpoint, fs::canonical(folder_ / "moved" / best).string());
  EXPECT_TRUE(at::equal(end.weights, first.weights));
}

/// Moves a folder after step 3.
struct Moves : Callback {
  Moves(fs::path from, fs::path to) : from(std::move(from)), to(std::move(to)) {}
  void on_step(const StepTiming& timing) override {
    if (timing.step == 3) fs::rename(from, to);
  }
  fs::path from, to;
};

std::vector<int64_t> logged_steps(const fs::path& run) {
  std::vector<int64_t> steps;
  LineReader lines(run / "log.jsonl", "a record a line");
  for (std::string line; lines.next(line);) {
    const auto record = parse_json(line, "log.jsonl");
    if (record.contains("grad_norm")) steps.push_back(record.at("step").get<int64_t>());
  }
  return steps;
}

TEST_F(Folders, LogFollowsARunWhoseFolderIsMoved) {
  auto args = arguments(folder_ / "run", 6);
  args.logging_steps = 1;
  args.save_async = false;
  args.report_to = "tensorboard";
  const auto moves = std::make_shared<Moves>(folder_ / "run", folder_ / "moved");
  ASSERT_EQ(train(args, one_device(), nullptr, moves).error, "");
  EXPECT_EQ(logged_steps(folder_ / "moved"), (std::vector<int64_t>{1, 2, 3, 4}));
  EXPECT_EQ(logged_steps(folder_ / "run"), (std::vector<int64_t>{5, 6})) << "from checkpoint-4 on";
  for (const char* name : {"moved", "run"}) {
    EXPECT_FALSE(fs::is_empty(folder_ / name / options::kEvents)) << name;
  }
}

/// Whether a file of TensorBoard's tells that steps from `step` on are made again: an event with
/// that step (field 2) and a session log (7) whose status (1) is START (1).
bool purges(const fs::path& events, char step) {
  for (const auto& file : fs::directory_iterator(events)) {
    const std::string text{'\x10', step, '\x3a', '\x02', '\x08', '\x01'};
    if (read_file(file.path()).find(text) != std::string::npos) return true;
  }
  return false;
}

TEST_F(Folders, StepsThatAreMadeAgainAreLoggedOnce) {
  auto args = arguments(folder_ / "run", 6);
  args.logging_steps = 1;
  args.report_to = "tensorboard";
  ASSERT_EQ(train(args, one_device()).error, "");
  EXPECT_FALSE(purges(folder_ / "run" / options::kEvents, 3));
  args.resume_from_checkpoint = (folder_ / "run/checkpoint-2").string();
  write_file(folder_ / "run/log.jsonl",
             read_file(folder_ / "run/log.jsonl") + "{\"step\": 7, \"lo");
  ASSERT_EQ(train(args, one_device()).error, "");
  EXPECT_EQ(logged_steps(folder_ / "run"), (std::vector<int64_t>{1, 2, 3, 4, 5, 6}));
  EXPECT_TRUE(purges(folder_ / "run" / options::kEvents, 3));
  size_t starts = 0;
  for (const auto& line : split(read_file(folder_ / "run/log.jsonl"), '\n')) {
    starts += line.find("\"start\"") != std::string::npos ? 1 : 0;
  }
  EXPECT_EQ(starts, 2U) << "both starts stay";
}

TEST_F(Folders, ARestartWithoutACheckpointKeepsTheStartsBeforeIt) {
  auto args = arguments(folder_ / "run", 4);
  args.logging_steps = 1;
  args.save_strategy = "no";
  args.report_to = "tensorboard";
  job::Job job = one_device();
  job.environment.job_id = "one";
  ASSERT_EQ(train(args, job).error, "");
  job.environment.restart_count = 1;
  args.output.overwrite = true;
  ASSERT_EQ(train(args, job).error, "");
  EXPECT_EQ(logged_steps(folder_ / "run"), (std::vector<int64_t>{1, 2, 3, 4}));
  EXPECT_TRUE(purges(folder_ / "run" / options::kEvents, 1));
}

TEST_F(Folders, AJobsUsefulTimeGoesOnOverItsStarts) {
  const auto state = [&] {
    const auto file = folder_ / "run/trainer_state.json";
    return parse_json(read_file(file), file.string());
  };
  job::Job job = one_device();
  job.environment.job_id = "one";
  job.environment.job_start = 1.5e9;
  ASSERT_EQ(train(arguments(folder_ / "run", 4), job).error, "");
  const auto first = state();
  EXPECT_GT(first.at("useful_seconds"), 0);
  job.environment.restart_count = 1;
  ASSERT_EQ(train(arguments(folder_ / "run", 6), job).error, "");
  EXPECT_GT(state().at("useful_seconds"), first.at("useful_seconds"));
  EXPECT_EQ(state().at("job_began"), first.at("job_began"));
  // Another job has its own.
  job.environment = {};
  job.environment.job_id = "other";
  job.environment.job_start = 1.6e9;
  auto args = arguments(folder_ / "run", 8);
  args.resume_from_checkpoint = "latest";
  ASSERT_EQ(train(args, job).error, "");
  EXPECT_NE(state().at("job_began"), first.at("job_began"));
}

TEST_F(Folders, ARestartGoesOnFromItsOwnJobWhateverTheClocksSay) {
  job::Job job = one_device();
  job.environment.job_id = "first";
  ASSERT_EQ(train(arguments(folder_ / "a", 4), job).error, "");
  job.environment.job_id = "second";
  auto own = arguments(folder_ / "a", 6);
  own.resume_from_checkpoint = "latest";
  ASSERT_EQ(train(own, job).error, "");
  // Clocks of the hosts differ: the first job's look newest.
  const auto now = fs::file_time_type::clock::now();
  for (const auto& [step, path] : checkpoint::list_checkpoints(folder_ / "a")) {
    fs::last_write_time(path / "trainer_state.json",
                        now + std::chrono::hours(step == 6 ? -48 : 48));
  }
  job.environment.restart_count = 1;
  auto args = arguments(folder_ / "a", 8);
  auto end = train(args, job);
  EXPECT_EQ(end.error, "");
  EXPECT_EQ(end.first_step, 7);
  job.environment.job_id = "third";
  EXPECT_NE(train(args, job).error.find("already holds a run"), std::string::npos);
  args.output.overwrite = true;
  EXPECT_EQ(train(args, job).first_step, 1) << "none of its own";
}

TEST_F(Folders, LeftOversOfAKillAreSweptAndOthersFilesAreNot) {
  auto args = arguments(folder_ / "a", 2);
  ASSERT_EQ(train(args, one_device()).error, "");
  std::vector<fs::path> left;
  for (const char* name : {"model.safetensors", "trainer_state.json", "train_results.json"}) {
    left.push_back(AtomicFile(folder_ / "a" / name).temporary());
    write_file(left.back(), "half");
  }
  const auto others = AtomicFile(folder_ / "a/top.csv").temporary();
  write_file(others, "a prediction under way");
  args.max_steps = 4;
  args.resume_from_checkpoint = "latest";
  ASSERT_EQ(train(args, one_device()).error, "");
  for (const auto& path : left) EXPECT_FALSE(fs::exists(path)) << path;
  EXPECT_TRUE(fs::exists(others));
}

/// Rewrites one tensor of a file.
void change(const fs::path& path, const std::string& name,
            const std::function<void(formats::TensorView&, std::string& bytes)>& edit) {
  std::vector<formats::TensorView> views;
  std::map<std::string, std::string> bytes;
  {
    const formats::SafetensorsFile file(path);
    for (const auto& [key, entry] : file.entries()) {
      const auto span = file.bytes(key);
      bytes[key].assign(reinterpret_cast<const char*>(span.data()), span.size());
      views.push_back({key, entry.dtype, entry.shape, nullptr, span.size()});
    }
  }
  for (auto& view : views) {
    if (view.name == name) edit(view, bytes[view.name]);
    view.data = bytes[view.name].data();
  }
  formats::write_safetensors(path, views);
}

TEST_F(Folders, WeightsOfWholeNumbersOrNoNumbersAreRefused) {
  ASSERT_EQ(train(arguments(folder_ / "a", 2), one_device()).error, "");
  const auto file = folder_ / "a/model.safetensors";
  const auto good = read_file(file);
  const auto refused = [&] {
    try {
      Trainer(tiny_model(), arguments("", 2), nullptr, nullptr, one_device())
          .load_weights(folder_ / "a");
    } catch (const FileError& error) {
      return std::string(error.what());
    }
    return std::string("nothing");
  };
  EXPECT_EQ(refused(), "nothing");
  const std::string name = "transformer.ln_f.bias";
  change(file, name, [](auto& view, auto&) { view.dtype = "I32"; });
  EXPECT_NE(refused().find("transformer.ln_f.bias is I32; expected F32"), std::string::npos)
      << refused();
  for (const float bad : {NAN, INFINITY}) {
    write_file(file, good);
    change(file, name, [&](auto&, auto& bytes) { std::memcpy(bytes.data() + 4, &bad, 4); });
    EXPECT_NE(refused().find("holds numbers that are not finite: transformer.ln_f.bias"),
              std::string::npos)
        << refused();
  }
  write_file(file, good);
  change(file, "embeddings.items.weight", [](auto&, auto& bytes) {
    const float large = 3e38F;
    for (size_t i = 0; i + 4 <= bytes.size(); i += 4) std::memcpy(bytes.data() + i, &large, 4);
  });
  EXPECT_EQ(refused(), "nothing") << "large is finite";
}

TEST_F(Folders, CheckpointsWrittenBesideTheTrainingAreTheSameFiles) {
  for (const bool beside : {true, false}) {
    run_ranks(2, [&](const job::Job& job) {
      auto options = arguments(folder_ / (beside ? "beside" : "between"), 7);
      options.save_async = beside;
      options.parallel.parallelism.zero = 2;
      EXPECT_EQ(train(options, job).error, "");
    });
  }
  int files = 0;
  for (const auto& [step, path] : checkpoint::list_checkpoints(folder_ / "beside")) {
    for (const auto& entry : fs::directory_iterator(path)) {
      const auto name = entry.path().filename().string();
      if (name == "trainer_state.json") continue;  // it holds times
      ++files;
      const auto other = folder_ / "between" / path.filename() / name;
      if (name == "manifest.json") {
        const auto written = [](const fs::path& file) {
          auto manifest = parse_json(read_file(file), file.string());
          manifest.at("others").erase("trainer_state.json");
          return manifest;
        };
        EXPECT_EQ(written(entry.path()), written(other)) << other;
      } else {
        EXPECT_EQ(read_file(entry.path()), read_file(other)) << other;
      }
    }
  }
  EXPECT_EQ(files, 4 * 3) << "steps 2, 4, 6 and 7: weights, moments and manifest each";
}

}  // namespace
}  // namespace convoy::train
