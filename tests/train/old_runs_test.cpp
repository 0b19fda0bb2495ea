#include <gmock/gmock.h>

#include "convoy/base/files.h"
#include "convoy/checkpoint/folder.h"
#include "tests/train/folders_testing.h"

// What a run makes of what another one left: it replaces it, goes on from it, or refuses it.
namespace convoy::train {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST_F(Folders, OverwrittenRunStaysUntilTheNewOneHasSaved) {
  write_file(folder_ / "words.txt", "old");
  files_.config["width"] = 8;
  files_.texts["notes.txt"] = "old";
  files_.copies = {folder_ / "words.txt"};
  const auto out = folder_ / "a", aside = out / ".replaced";
  auto args = arguments(out, 2);
  args.report_to = "tensorboard";
  ASSERT_EQ(train(args, one_device()).error, "");
  const auto model = read_file(out / "model.safetensors"), log = read_file(out / "log.jsonl");
  const auto num_curves = [](const fs::path& run) {
    return std::distance(fs::directory_iterator(run / "runs"), {});
  };
  auto fails = arguments(out, 20);
  fails.learning_rate = 1e30;
  fails.save_steps = 10;
  fails.report_to = "tensorboard";
  fails.output.overwrite = true;
  for (const int time : {1, 2}) {
    const auto error = train(fails, one_device()).error;
    EXPECT_NE(error.find("is not finite"), std::string::npos) << time << ": " << error;
    for (const char* file : {"notes.txt", "words.txt", "config.json", "checkpoint-2/config.json",
                             "train_results.json", "trainer_state.json"}) {
      EXPECT_TRUE(fs::exists(aside / file)) << file;
      EXPECT_FALSE(fs::exists(out / file)) << file;
    }
    EXPECT_EQ(read_file(aside / "log.jsonl"), log);
    EXPECT_EQ(num_curves(aside), 1);
    EXPECT_EQ(num_curves(out), 1) << "the new run's";
    EXPECT_EQ(read_file(aside / "model.safetensors"), model);
  }
  EXPECT_NE(train(args, one_device()).error.find("already holds a run"), std::string::npos);
  auto again = args;
  again.resume_from_checkpoint = "latest";
  EXPECT_NE(train(again, one_device()).error.find((aside / "checkpoint-2").string()),
            std::string::npos);
  args.output.overwrite = true;
  for (const char* saves : {"steps", "no"}) {  // a checkpoint, or only the model
    args.save_strategy = saves;
    const auto end = train(args, one_device());
    EXPECT_EQ(end.error, "");
    EXPECT_EQ(end.first_step, 1);
    EXPECT_FALSE(fs::exists(aside)) << saves;
    EXPECT_EQ(fs::exists(out / "checkpoint-2"), args.save_strategy == "steps");
  }
  // The new run reads a file of the folder.
  files_.copies = {out / "words.txt"};
  EXPECT_EQ(train(args, one_device()).error, "");
  EXPECT_EQ(read_file(out / "words.txt"), "old");
}

TEST_F(Folders, FilesOfAnotherRunDoNotPassForItsOwn) {
  write_file(folder_ / "old/words.json", "old");
  write_file(folder_ / "new/words.txt", "new");
  const auto out = folder_ / "a", fresh = folder_ / "b";
  files_.looked_for = {"words.json", "words.txt", "marks.txt"};
  files_.copies = {folder_ / "old/words.json"};
  ASSERT_EQ(train(arguments(out, 2), one_device()).error, "");
  write_file(out / "marks.txt", "of somebody");
  // A run of other files, over it: a reader would open words.json first.
  files_.copies = {folder_ / "new/words.txt"};
  auto over = arguments(out, 2);
  over.output.overwrite = true;
  ASSERT_EQ(train(over, one_device()).error, "");
  EXPECT_EQ(read_file(out / "words.txt"), "new");
  EXPECT_FALSE(fs::exists(out / "words.json"));
  EXPECT_FALSE(fs::exists(out / "marks.txt"));
  // In a folder that holds no run.
  write_file(fresh / "words.json", "old");
  const auto error = train(arguments(fresh, 2), one_device()).error;
  EXPECT_NE(error.find("holds no run, but a file words.json that would pass for this run's"),
            std::string::npos)
      << error;
  files_.copies = {folder_ / "old/words.json"};
  EXPECT_EQ(train(arguments(fresh, 2), one_device()).error, "") << "its own, byte for byte";
}

TEST_F(Folders, DifferentTokenizerIsNotResumed) {
  files_.encoding = "words of old";
  ASSERT_EQ(train(arguments(folder_ / "a", 2), one_device()).error, "");
  auto args = arguments(folder_ / "a", 4);
  args.resume_from_checkpoint = "latest";
  files_.encoding = "words of new";
  const auto error = train(args, one_device()).error;
  EXPECT_NE(error.find("was trained with the words of old, this run has the words of new"),
            std::string::npos)
      << error;
  files_.encoding = "words of old";
  EXPECT_EQ(train(args, one_device()).first_step, 3);
  // A state of before it was noted.
  edit_state(folder_ / "a/checkpoint-4", [](Json& state) { state.erase("encoding"); });
  files_.encoding = "words of new";
  args.max_steps = 6;
  EXPECT_EQ(train(args, one_device()).first_step, 5);
}

TEST_F(Folders, DifferentOrderOfSamplesIsNotResumedInMidEpoch) {
  ASSERT_EQ(train(arguments(folder_ / "a", 2), one_device()).error, "");
  edit_state(folder_ / "a/checkpoint-2", [](Json& state) {
    EXPECT_EQ(state["data_order"].get<std::string>().find("one permutation of all rows"), 0)
        << state;
    state["data_order"] = "63 lanes";
  });
  auto args = arguments(folder_ / "a", 4);
  args.resume_from_checkpoint = "latest";
  const auto error = train(args, one_device()).error;
  EXPECT_NE(error.find("order of samples (63 lanes) is not this run's (one permutation"),
            std::string::npos)
      << error;
}

TEST_F(Folders, ACheckpointUnderWayIsKeptWhenTheLossIsNotFinite) {
  auto args = arguments(folder_ / "a", 20);
  args.learning_rate = 1e30;
  args.save_steps = 1;
  run_ranks(2, [&](const job::Job& job) {
    const auto error = train(args, job).error;
    EXPECT_NE(error.find("is not finite"), std::string::npos) << error;
  });
  EXPECT_TRUE(fs::exists(folder_ / "a/checkpoint-1/manifest.json"));
  for (const auto& entry : fs::directory_iterator(folder_ / "a")) {
    EXPECT_EQ(entry.path().string().find(".tmp"), std::string::npos) << entry.path();
  }
}

TEST_F(Folders, NewerCheckpointsThatAreNotWholeArePassedOverAloud) {
  const auto out = folder_ / "a";
  ASSERT_EQ(train(arguments(out, 8), one_device()).error, "");
  auto more = arguments(out, 10);
  more.resume_from_checkpoint = "latest";
  // The newest first: no state, a step that cannot be, other numbers than were written.
  fs::remove(out / "checkpoint-8/trainer_state.json");
  const auto state = out / "checkpoint-6/trainer_state.json";
  const auto good = read_file(state);
  auto bad = parse_json(good, "state");
  bad["global_step"] = -5;
  write_file(state, bad.dump());
  const auto weights = out / "checkpoint-4/model.safetensors";
  auto bytes = read_file(weights);
  bytes[bytes.size() - 3] ^= 1;
  write_file(weights, bytes);
  run_ranks(2, [&](const job::Job& job) {
    Trainer trainer(tiny_model(), more, random_sessions(45, 50, 8), nullptr, job);
    auto said = std::make_shared<Said>();
    auto first = std::make_shared<First>();
    trainer.add_callback(said);
    trainer.add_callback(first);
    trainer.train();
    if (job.environment.rank > 0) return;
    EXPECT_EQ(first->step, 3);
    for (const char* part :
         {"checkpoint-8 is passed over: cannot read ", "trainer_state.json: No such file",
          "checkpoint-6 is passed over: ", "global_step = -5; expected 0 or more",
          "checkpoint-4 is passed over: ", "is not as it was written"}) {
      EXPECT_NE(said->all.find(part), std::string::npos) << part << "\nis not in\n" << said->all;
    }
  });
  // One that is named is the one that is meant.
  more.resume_from_checkpoint = (out / "checkpoint-6").string();
  write_file(out / "checkpoint-6/trainer_state.json", bad.dump());
  EXPECT_NE(train(more, one_device()).error.find("global_step = -5"), std::string::npos);
  for (const auto& [step, path] : checkpoint::all_named(out)) {
    fs::remove(path / "optimizer.safetensors");
  }
  more.resume_from_checkpoint = "latest";
  const auto error = train(more, one_device()).error;
  EXPECT_NE(error.find("no checkpoint in"), std::string::npos) << error;
  EXPECT_NE(error.find("checkpoint-2 is passed over"), std::string::npos) << error;
}

TEST_F(Folders, ACheckpointWhoseStateChangedIsPassedOverOrRefused) {
  files_.config["width"] = 8;
  const auto out = folder_ / "a";
  ASSERT_EQ(train(arguments(out, 6), one_device()).error, "");
  const auto state = out / "checkpoint-6/trainer_state.json";
  auto changed = parse_json(read_file(state), "state");
  changed["epoch_position"] = changed["epoch_position"].get<int64_t>() + 1;
  write_file(state, changed.dump());
  fs::remove(out / "checkpoint-4/config.json");
  auto more = arguments(out, 8);
  more.resume_from_checkpoint = (out / "checkpoint-6").string();
  EXPECT_THAT(train(more, one_device()).error,
              HasSubstr("checkpoint-6: trainer_state.json is not as it was written; try an earlier "
                        "checkpoint, or remove manifest.json"));
  try {
    Trainer trainer(tiny_model(), more, random_sessions(45, 50, 8), nullptr, one_device());
    trainer.load_moments(out / "checkpoint-6");
    ADD_FAILURE() << "it tells of how many updates its moments are";
  } catch (const FileError& error) {
    EXPECT_THAT(error.what(), HasSubstr("is not as it was written"));
  }
  more.resume_from_checkpoint = "latest";
  auto said = std::make_shared<Said>();
  const auto end = train(more, one_device(), nullptr, said);
  EXPECT_EQ(end.error, "");
  EXPECT_EQ(end.first_step, 3);
  EXPECT_THAT(said->all, HasSubstr("checkpoint-6 is passed over: "));
  EXPECT_THAT(said->all, HasSubstr("config.json is missing"));
  EXPECT_THAT(said->all, Not(HasSubstr("has no manifest.json")));
  // Without its manifest nothing is known.
  fs::remove(out / "checkpoint-8/manifest.json");
  more.max_steps = 10;
  EXPECT_EQ(train(more, one_device(), nullptr, said).first_step, 9);
  EXPECT_THAT(said->all, HasSubstr("checkpoint-8 has no manifest.json"));
}

TEST_F(Folders, ARunThatWasPutAsideStaysWhileItIsGoneOnWith) {
  const auto eval_data = random_sessions(20, 50, 8);
  const auto out = folder_ / "a";
  auto args = arguments(out, 6);
  args.eval_strategy = "steps";
  args.eval_steps = 2;
  args.load_best_model_at_end = true;
  args.metric_for_best_model = "loss";
  args.greater_is_better = "true";  // the first
  ASSERT_EQ(train(args, one_device(), eval_data).state.best_step, 2);
  auto fails = args;
  fails.learning_rate = 1e30;
  fails.eval_strategy = fails.save_strategy = "no";
  fails.load_best_model_at_end = false;
  fails.metric_for_best_model = "";
  fails.output.overwrite = true;
  ASSERT_NE(train(fails, one_device()).error, "");
  ASSERT_TRUE(fs::exists(out / ".replaced/checkpoint-2"));
  args.output.overwrite = true;
  for (const int64_t steps : {8, 10}) {
    args.max_steps = steps;
    args.resume_from_checkpoint =
        steps == 8 ? (out / ".replaced/checkpoint-6").string() : std::string("latest");
    auto said = std::make_shared<Said>();
    ASSERT_EQ(train(args, one_device(), eval_data, said).error, "");
    EXPECT_THAT(said->all, HasSubstr("the model is the best one, of step 2")) << steps;
    EXPECT_TRUE(fs::exists(out / ".replaced/checkpoint-2")) << steps;
  }
  // Nothing of it is needed any more once another one is better.
  args.metric_for_best_model = "";
  args.greater_is_better = "auto";
  args.max_steps = 12;
  ASSERT_EQ(train(args, one_device(), eval_data).state.best_step, 12);
  EXPECT_FALSE(fs::exists(out / ".replaced"));
}

}  // namespace
}  // namespace convoy::train
