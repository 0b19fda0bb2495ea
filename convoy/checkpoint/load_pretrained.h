#pragma once

#include <filesystem>
#include <functional>
#include <memory>

#include "convoy/models/language_model.h"
#include "convoy/parallel/buffers/types.h"

namespace convoy::checkpoint {

/// A language model of a folder.
///
///     auto model = convoy::load_pretrained("gpt2");
///     convoy::Trainer trainer(model.blocks, arguments, data, nullptr, model.weights);
struct Pretrained {
  std::shared_ptr<const models::LanguageModelConfig> config;
  parallel::ModelFactory blocks;
  /// Gives a replica the weights; those that the folder lacks and may lack are drawn. Called on all
  /// ranks. Throws FileError that names what is missing, left over or of another shape.
  std::function<void(parallel::Replica&)> weights;
};

/// Opens a folder with config.json and safetensors, as Hugging Face's tools and convoy write them:
/// a family of language_families(), alone or in a wrapper, of whose weights only the text part's
/// are read. Weights are read when a Trainer starts. Throws FileError.
Pretrained load_pretrained(const std::filesystem::path& folder);

}  // namespace convoy::checkpoint
