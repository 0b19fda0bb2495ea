#pragma once

#include "convoy/checkpoint/adapter_config.h"
#include "convoy/models/language_model.h"
#include "convoy/nn/block.h"
#include "convoy/parallel/buffers/state.h"

// Adapters in PEFT's files: adapter_config.json and adapter_model.safetensors.
namespace convoy::checkpoint {

/// Blocks whose targets have adapters and whose other weights are frozen, but for modules_to_save.
/// `strict`: each target must be there. Writes names of modules and fan_in_fan_out into `config` as
/// PEFT keeps them. Throws UsageError where a target is no matrix of the model.
nn::BlockList adapted(const nn::BlockList& blocks, AdapterConfig& config,
                      const models::WeightLayout& layout, bool strict = true);

/// Whether a weight is a matrix of an adapter, by its name.
bool is_of_adapter(const std::string& name);

/// Whether a state has adapters.
bool is_adapted(const parallel::State& state);

/// Weights that a run saves: of a state with adapters those that are trained, by PEFT's names;
/// else all.
parallel::State saved_part(parallel::State state);

/// Weights of the model that a state with adapters is of.
parallel::State base_part(parallel::State state);

/// The file of saved_part().
const char* weights_file(const parallel::State& saved);

}  // namespace convoy::checkpoint
