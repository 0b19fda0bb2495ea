#include "convoy/train/logging/console.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "convoy/base/error.h"
#include "convoy/base/files.h"
#include "convoy/base/out_of_memory.h"
#include "convoy/base/text.h"
#include "convoy/checkpoint/folder.h"
#include "convoy/planner/estimate/memory_check.h"
#include "tests/train/testing.h"

// What is told of a GPU, which the tests of training do not have, and of what takes long to show.
namespace convoy::train {
namespace {

TEST(Console, TellsTheGpusMemoryAndNoWaitingThatNobodyKnows) {
  const auto console = make_console(/*quiet=*/false);
  LogRecord record;
  record.step = 3;
  record.max_steps = 9;
  record.comm_wait_percent = NAN;
  record.device_memory_bytes = int64_t{3} << 30;
  Metrics end{{"train_runtime", 1},
              {"train_samples_per_second", 2},
              {"train_final_loss", 3},
              {"peak_memory_bytes_per_rank", 1 << 20},
              {"train_comm_wait_percent", NAN},
              {"peak_device_memory_bytes_per_rank", 5.0 * (1 << 30)}};
  testing::internal::CaptureStdout();
  console->on_log(record);
  console->on_train_end(end);
  const auto told = testing::internal::GetCapturedStdout();
  EXPECT_NE(told.find("  gpu 3.00 GiB"), std::string::npos) << told;
  EXPECT_NE(told.find("peak memory 1.00 MiB, on a GPU 5.00 GiB"), std::string::npos) << told;
  EXPECT_EQ(told.find("comm"), std::string::npos) << told;
  EXPECT_EQ(told.find("waited"), std::string::npos) << told;
  EXPECT_EQ(record.to_json()["device_memory_bytes"], int64_t{3} << 30);
  EXPECT_EQ(json_line(record.to_json()["comm_wait_percent"]), "null");

  record.device_memory_bytes = 0;
  record.comm_wait_percent = 12;
  testing::internal::CaptureStdout();
  console->on_log(record);
  const auto host = testing::internal::GetCapturedStdout();
  EXPECT_EQ(host.find("gpu"), std::string::npos) << host;
  EXPECT_NE(host.find("comm 12.0%"), std::string::npos) << host;
}

TEST(Console, OneDeviceWaitsForNobody) {
  auto arguments = short_run(/*per_device=*/8, /*accumulation=*/1, /*steps=*/3);
  arguments.output.quiet = false;
  Trainer trainer(tiny_model(), arguments, random_sessions(45, 50, 8), nullptr, one_device());
  testing::internal::CaptureStdout();
  const auto metrics = trainer.train();
  const auto told = testing::internal::GetCapturedStdout();
  EXPECT_EQ(metrics.at("train_comm_wait_percent"), 0);
  EXPECT_EQ(told.find("waited for other ranks"), std::string::npos) << told;
}

TEST(Console, TellsOfStepsThatFp16Skips) {
  auto config = models::small_session({.width = 8, .layers = 1, .length = 8});
  config.features.push_back({"price", false, 0});
  for (const int64_t every : {48, 16, 1}) {  // rows of 48 whose price overflows
    auto arguments = short_run(/*per_device=*/8, /*accumulation=*/1, /*steps=*/12);
    arguments.fp16 = true;
    arguments.output.quiet = false;
    arguments.output.dir = unique_folder("convoy-fp16").string();
    arguments.save_strategy = "steps";
    Trainer trainer([config] { return models::make_session_model(config); }, arguments,
                    rare_prices(every), nullptr, one_device());
    testing::internal::CaptureStdout();
    std::string error;
    try {
      trainer.train();
    } catch (const NumericError& what) {
      error = what.what();
    }
    const auto told = testing::internal::GetCapturedStdout();
    const auto skipped = trainer.state().skipped_steps;
    int64_t lines = 0;
    for (const auto& line : split(told, '\n')) lines += line.starts_with("skipped step ");
    EXPECT_GT(skipped, 0);
    EXPECT_EQ(lines, skipped) << told;
    const auto of_all = fmt::format("{} of 12 steps w", skipped);
    const bool most = skipped > 6;
    EXPECT_EQ(most, every == 1) << skipped;
    EXPECT_EQ(told.find("warning: " + of_all) != std::string::npos, !most) << told;
    EXPECT_EQ(error.find(of_all) != std::string::npos, most) << error;
    const std::filesystem::path out = arguments.output.dir;
    EXPECT_EQ(std::filesystem::exists(out / "model.safetensors"), !most);
    EXPECT_EQ(checkpoint::latest_checkpoint(out).has_value(), !most);
    std::filesystem::remove_all(out);
  }
}

TEST(Console, TellsHowNearToThePeakAStepComesOnceThatIsKnown) {
  auto arguments = short_run(/*per_device=*/8, /*accumulation=*/1, /*steps=*/2);
  arguments.output.quiet = false;
  Trainer trainer(tiny_model(), arguments, random_sessions(45, 50, 8), nullptr, one_device());
  trainer.set_pace([](LogRecord& record) {
    if (record.step == 1) return;  // is measured later
    record.peak_percent = 41.8;
    record.floor_times = 2.5;
  });
  testing::internal::CaptureStdout();
  trainer.train();
  const auto told = testing::internal::GetCapturedStdout();
  const auto second = told.find("step 2/2");
  ASSERT_NE(second, std::string::npos) << told;
  EXPECT_EQ(told.substr(0, second).find("floor"), std::string::npos) << told;
  EXPECT_NE(told.find("peak 42%", second), std::string::npos) << told;
  EXPECT_NE(told.find("floor 2.50x", second), std::string::npos) << told;
}

TEST(Memory, ErrorsOfNvidiasLibrariesAreKnownToo) {
  for (const char* message :
       {"[enforce fail at alloc_cpu.cpp:121] . DefaultCPUAllocator: not enough memory: you tried",
        "CUDA out of memory. Tried to allocate 20.00 GiB. GPU 0 has a total capacity of",
        "CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`",
        "cuDNN error: CUDNN_STATUS_ALLOC_FAILED",
        "NCCL error: unhandled cuda error; Cuda failure 2 'out of memory'"}) {
    EXPECT_TRUE(tells_of_memory(message)) << message;
  }
  EXPECT_FALSE(tells_of_memory("CUDA error: an illegal memory access was encountered"));
  EXPECT_EQ(
      planner::out_of_memory("CUDA out of memory. Tried").find("[memory] the device has no memory"),
      0);
}

}  // namespace
}  // namespace convoy::train
