#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "convoy/base/json.h"

namespace convoy::checkpoint {

/// Whether `folder` holds weights, or a manifest that says what they were.
bool holds_weights(const std::filesystem::path& folder);

/// `typed` where it holds weights, else the newest checkpoint in it. Throws FileError where there
/// is neither.
std::filesystem::path find_weights(const std::filesystem::path& typed);

/// A line for a person where a run's folder has a checkpoint beyond the step of its model, as when
/// it went on after its end and has not ended again, or where the run has left that step behind;
/// "" elsewhere.
std::string tell_newer(const std::filesystem::path& run);

/// A tensor of a file.
struct TensorFacts {
  std::string name;
  std::string file;
  std::string dtype;
  std::vector<int64_t> shape;
  size_t bytes = 0;
};

/// Content of a folder of weights, as its headers and small files tell.
struct Contents {
  std::filesystem::path folder;
  std::string kind;             ///< "checkpoint", "model of a run" or "model"
  std::string written_by;       ///< "convoy", "transformers 5.23.0", or "" where nothing tells
  std::optional<int64_t> step;  ///< of the training
  std::optional<double> epoch;
  bool has_manifest = false;
  int64_t num_parameters = 0;        ///< elements of weights that are real numbers
  std::vector<TensorFacts> tensors;  ///< of the weights, then of all else; in a file by name
  std::vector<std::string> weights;  ///< the files of the weights
};

/// Reads headers and small files. Throws FileError that names a file which cannot be read.
Contents look_at(const std::filesystem::path& folder);

Json to_json(const Contents& contents);

/// All *.safetensors in `folder`, by name.
std::vector<std::string> tensor_files(const std::filesystem::path& folder);

}  // namespace convoy::checkpoint
