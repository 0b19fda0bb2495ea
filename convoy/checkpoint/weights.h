#pragma once

#include <filesystem>

#include "convoy/parallel/replica.h"

namespace convoy::checkpoint {

/// Writes every parameter, fp32, and every buffer by its global name: a file that Hugging Face's
/// tools read.
void save_weights(const std::filesystem::path& path, parallel::Replica& model);

/// Reads them back. Throws FileError that names the file and every parameter that is missing, left
/// over or of another shape.
void load_weights(const std::filesystem::path& path, parallel::Replica& model);

/// Writes AdamW's moments as `exp_avg.<parameter>` and `exp_avg_sq.<parameter>`.
void save_optimizer(const std::filesystem::path& path, parallel::Replica& model);
void load_optimizer(const std::filesystem::path& path, parallel::Replica& model);

}  // namespace convoy::checkpoint
