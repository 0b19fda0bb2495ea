#include <fcntl.h>
#include <gmock/gmock.h>
#include <spawn.h>
#include <sys/wait.h>

#include <csignal>
#include <cstdlib>
#include <random>

#include "convoy/base/files.h"
#include "convoy/base/text.h"
#include "convoy/base/timing.h"
#include "convoy/checkpoint/folder.h"
#include "convoy/checkpoint/verify.h"
#include "convoy/checkpoint/weights.h"
#include "tests/train/causal_testing.h"

// kill -9 while checkpoints are written: what is listed is whole.
namespace convoy::train {
namespace {

namespace fs = std::filesystem;
constexpr const char* kRun = "CONVOY_KILL_RUN";

/// Some megabytes, so that most of the time goes into saving.
nn::BlockList model() {
  return models::small_gpt2({kIds, /*width=*/96, /*heads=*/3, /*layers=*/4, kLength}).make_blocks();
}

/// What is killed: two ranks that keep shards, save after every step, and go on from the newest.
void save_all_the_time(const fs::path& run) {
  run_ranks(2, [&](const job::Job& job) {
    at::set_num_threads(1);
    options::TrainingArguments arguments;
    arguments.per_device_train_batch_size = 1;
    arguments.max_steps = 1 << 30;
    arguments.save_steps = 1;
    arguments.save_total_limit = 2;
    arguments.parallel.parallelism.zero = 3;
    arguments.output.quiet = true;
    arguments.output.dir = run.string();
    if (checkpoint::latest_checkpoint(run)) arguments.resume_from_checkpoint = "latest";
    Trainer(model, arguments, texts(), nullptr, job).train();
  });
}

/// This test in a process of its own, in the folder that it is told.
pid_t start(const fs::path& run) {
  ::setenv(kRun, run.c_str(), 1);
  const char* arguments[] = {"test_train", "--gtest_filter=Kill.*", nullptr};
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 1, "/dev/null", O_WRONLY, 0);
  pid_t child = -1;
  EXPECT_EQ(::posix_spawn(&child, "/proc/self/exe", &actions, nullptr,
                          const_cast<char* const*>(arguments), environ),
            0);
  posix_spawn_file_actions_destroy(&actions);
  ::unsetenv(kRun);
  return child;
}

int64_t newest_step(const fs::path& run) {
  const auto all = checkpoint::list_checkpoints(run);
  return all.empty() ? 0 : all.back().first;
}

double environment_number(const char* name, double otherwise) {
  const char* text = std::getenv(name);
  double number = otherwise;
  return text != nullptr && parse_number(text, number) ? number : otherwise;
}

/// Twenty moments; CONVOY_KILLS makes it more, CONVOY_SEED chooses others.
TEST(Kill, LeavesOnlyWholeCheckpointsListedAtAnyMomentOfSaving) {
  if (const char* run = std::getenv(kRun)) return save_all_the_time(run);
  const auto kills = static_cast<int>(environment_number("CONVOY_KILLS", 20));
  const auto seed = static_cast<uint64_t>(environment_number("CONVOY_SEED", 1));
  std::mt19937_64 random(seed);
  std::uniform_real_distribution<double> moment(0, 0.2);
  const auto folder = unique_folder("convoy-kill");
  const auto run = folder / "run";
  auto state = parallel::make_process_strategy(model, {}, {});
  int half_written = 0;
  for (int kill = 0; kill < kills; ++kill) {
    const int64_t before = newest_step(run);
    const auto began = std::chrono::steady_clock::now();
    const pid_t child = start(run);
    while (newest_step(run) == before && seconds_since(began) < 30) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    const double wait = moment(random);
    std::this_thread::sleep_for(std::chrono::duration<double>(wait));
    ::kill(child, SIGKILL);
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFSIGNALED(status)) << "it ended by itself";
    SCOPED_TRACE(fmt::format("seed {}, kill {} of {}, {:.4f} s after the first save", seed,
                             kill + 1, kills, wait));
    for (const auto& entry : fs::directory_iterator(run)) {
      half_written += entry.path().filename().string().starts_with(".checkpoint-");
    }
    const auto all = checkpoint::list_checkpoints(run);
    ASSERT_GT(all.size(), 0u);
    EXPECT_GT(all.back().first, before);
    for (const auto& [step, path] : all) {
      const auto found = checkpoint::verify(path);
      EXPECT_TRUE(found.has_manifest) << path;
      EXPECT_THAT(found.wrong, testing::IsEmpty()) << path;
    }
    const auto& newest = all.back().second;
    const auto& alone = state->processes();
    checkpoint::load_weights(newest, state->weights(), alone);
    checkpoint::load_optimizer(newest / checkpoint::kOptimizer, state->moments(), alone);
    if (testing::Test::HasFailure()) break;
  }
  fmt::print("seed {}: {} kills, {} in the middle of a checkpoint\n", seed, kills, half_written);
  EXPECT_GT(half_written, kills / 10) << "the moments are not those of saving";
  fs::remove_all(folder);
}

}  // namespace
}  // namespace convoy::train
