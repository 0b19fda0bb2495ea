#include "convoy/comm/device.h"
#include "convoy/job/numerics.h"
#include "tests/gpu/gpu_testing.h"
#include "tests/train/testing.h"

namespace convoy::train {
namespace {

using Training = Gpu;

struct Trained {
  std::vector<double> losses;
  at::Tensor weights;
};

Trained run(const std::string& body, const std::vector<at::Device>& devices,
            const options::TrainingArguments& given = {}) {
  auto config = models::small_session({.heads = 4, .length = 9});
  config.features.push_back({"kind", true, 8});
  config.features.push_back({"price", false, 0});
  config.body = body;
  auto arguments = given;
  arguments.per_device_train_batch_size = 32 / static_cast<int64_t>(devices.size());
  arguments.learning_rate = 1e-3;
  arguments.max_steps = 12;
  arguments.logging_steps = 1;
  arguments.save_strategy = "no";
  arguments.output.quiet = true;
  auto job = devices.size() == 1 ? one_device() : replicas(2);
  job.devices = devices;
  Trainer trainer([config] { return models::make_session_model(config); }, arguments,
                  random_sessions(200, 50, 9), nullptr, job);
  auto recorder = std::make_shared<Recorder>();
  trainer.add_callback(recorder);
  trainer.train();
  return {recorder->losses, all_weights(trainer).cpu()};
}

void expect_close(const Trained& a, const Trained& b, double tolerance) {
  ASSERT_EQ(a.losses.size(), b.losses.size());
  for (size_t i = 0; i < a.losses.size(); ++i) {
    EXPECT_NEAR(a.losses[i], b.losses[i], tolerance) << "step " << i + 1;
  }
}

TEST_F(Training, IsThatOfTheCpu) {
  for (const char* body : {"gpt2", "bert"}) {
    expect_close(run(body, {gpu_}), run(body, {at::kCPU}), 1e-4);
  }
  EXPECT_GT(comm::peak_device_bytes(gpu_), 0);
}

TEST_F(Training, HalfPrecisionStaysNearFp32) {
  const auto exact = run("gpt2", {at::kCPU});
  options::TrainingArguments arguments;
  arguments.bf16 = true;
  expect_close(run("gpt2", {gpu_}, arguments), exact, 5e-2);
  arguments = {};
  arguments.fp16 = true;
  const auto fp16 = run("gpt2", {gpu_}, arguments);
  EXPECT_NEAR(fp16.losses.back(), exact.losses.back(), 0.5);  // the first steps may be skipped
  arguments = {};
  arguments.tf32 = true;
  expect_close(run("gpt2", {gpu_}, arguments), exact, 1e-2);
}

TEST_F(Training, TwoReplicasShareAGpu) {
  expect_close(run("gpt2", {gpu_, gpu_}), run("gpt2", {gpu_}), 1e-4);
}

TEST_F(Training, DeterministicGivesTheSameBits) {
  options::TrainingArguments arguments;
  arguments.deterministic = true;
  for (const char* body : {"gpt2", "bert"}) {
    EXPECT_TRUE(
        at::equal(run(body, {gpu_}, arguments).weights, run(body, {gpu_}, arguments).weights));
  }
}

}  // namespace
}  // namespace convoy::train
