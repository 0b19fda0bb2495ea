#pragma once

#include "convoy/checkpoint/folder.h"

// Internal to the component: what the files of a run are called.
namespace convoy::train {

using checkpoint::kConfig;
using checkpoint::kOptimizer;
using checkpoint::kState;
inline constexpr const char* kResults[] = {"all_results.json", "train_results.json",
                                           "eval_results.json"};
inline constexpr const char* kLog = "log.jsonl";
/// The schedule of a run's stages, as pipeline_schedule_file takes it.
inline constexpr const char* kPipeline = "pipeline.csv";
/// Place of a run that is overwritten, until the new one has saved.
inline constexpr const char* kReplaced = ".replaced";

}  // namespace convoy::train
