#pragma once

// Internal to the room: what the files of a run are called.
namespace convoy::train {

inline constexpr const char* kOptimizer = "optimizer.safetensors";
inline constexpr const char* kState = "trainer_state.json";
inline constexpr const char* kConfig = "config.json";
inline constexpr const char* kResults[] = {"all_results.json", "train_results.json",
                                           "eval_results.json"};

}  // namespace convoy::train
