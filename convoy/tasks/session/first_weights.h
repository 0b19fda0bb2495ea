#pragma once

#include <filesystem>

#include "convoy/models/session/session.h"
#include "convoy/parallel/buffers/state.h"
#include "convoy/tasks/session/pretrained_vectors.h"
#include "convoy/tasks/session/same_ids.h"
#include "convoy/train/trainer.h"

// Initial weights of a session model.
namespace convoy::tasks {

/// Draws the initial values of every parameter of a model. Returns its state.
parallel::State draw_all(parallel::Replica& model);

/// Sets the first rows of tensor `name` of a state to `values`, where this rank has it.
void fill_rows(const parallel::State& state, const std::string& name, const at::Tensor& values);

/// Returns the config with as many ids of each categorical feature, padding included, as the
/// weights in `folder` have; 0 for a feature that they lack. Throws FileError where they lack the
/// items.
models::SessionConfig ids_in(const std::filesystem::path& folder, models::SessionConfig config);

/// Begins with the weights of an earlier run in `folder`. Its embeddings and output matrix may have
/// fewer ids: the rows of the others are drawn, as if they had always been there, or are those of
/// `vectors`, which all ids have where they are frozen. `data`: the files beside the data. Throws
/// FileError where the weights are of another model, and as check_same_ids().
train::Trainer::Fill fill_from(const std::filesystem::path& folder,
                               const models::SessionConfig& config, const BesideData& data,
                               const PretrainedVectors& vectors);

}  // namespace convoy::tasks
