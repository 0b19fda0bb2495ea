#include "convoy/checkpoint/folder.h"

#include <gtest/gtest.h>

#include "convoy/base/files.h"
#include "convoy/checkpoint/manifest.h"

namespace convoy::checkpoint {
namespace {

namespace fs = std::filesystem;

void make_checkpoint(const fs::path& folder, const std::string& weights) {
  make_folder(folder);
  write_file(folder / kState, "{}");
  write_file(folder / "model.safetensors", weights);
  Manifest manifest;
  manifest.set("model.safetensors", "w", 1);
  manifest.set_bytes("model.safetensors", 7);
  write_file(folder / Manifest::kName, manifest.to_text());
}

std::vector<int64_t> steps_of(const fs::path& run) {
  std::vector<int64_t> out;
  for (const auto& [step, path] : list_checkpoints(run)) out.push_back(step);
  return out;
}

// A run that passed over a broken one, and saved below its step, must not lose a good one for it.
TEST(Rotation, KeepsGoodCheckpointsRatherThanBrokenNewerOnes) {
  const auto run = unique_folder("convoy-rotate");
  for (const int step : {5, 10, 15}) {
    make_checkpoint(run / ("checkpoint-" + std::to_string(step)), "weights");
  }
  make_checkpoint(run / "checkpoint-20", "cut");
  make_checkpoint(run / "checkpoint-25", "weights");
  write_file(run / "checkpoint-25" / Manifest::kName, "{");
  rotate_checkpoints(run, 5, 25);
  EXPECT_EQ(steps_of(run), (std::vector<int64_t>{5, 10, 15, 20, 25}));
  rotate_checkpoints(run, 2, 15, {run / "checkpoint-15"});
  EXPECT_EQ(steps_of(run), (std::vector<int64_t>{10, 15}));
  rotate_checkpoints(run, 1, 15, {run / "checkpoint-10"});
  EXPECT_EQ(steps_of(run), (std::vector<int64_t>{10})) << "spared";
  fs::remove_all(run);
}

// A run that went on from an earlier checkpoint leaves what was saved beyond it behind.
TEST(Rotation, RemovesWhatTheRunLeftBehindBeforeItsOwn) {
  const auto run = unique_folder("convoy-rotate");
  for (const int step : {10, 13, 20, 30, 40}) {
    make_checkpoint(run / ("checkpoint-" + std::to_string(step)), "weights");
  }
  rotate_checkpoints(run, 3, 13, {run / "checkpoint-13"});
  EXPECT_EQ(steps_of(run), (std::vector<int64_t>{10, 13, 40}));
  rotate_checkpoints(run, 2, 13, {run / "checkpoint-13"});
  EXPECT_EQ(steps_of(run), (std::vector<int64_t>{10, 13}));
  fs::remove_all(run);
}

}  // namespace
}  // namespace convoy::checkpoint
