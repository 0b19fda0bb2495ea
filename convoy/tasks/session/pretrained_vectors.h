#pragma once

#include <ATen/core/Tensor.h>

#include <map>
#include <string>

#include "convoy/tasks/session/session_arguments.h"
#include "convoy/train/trainer.h"

namespace convoy::tasks {

/// Initial embeddings of categorical features, by column: [ids, width] fp32 on the host, row 0 is
/// padding's.
using PretrainedVectors = std::map<std::string, at::Tensor>;

/// Reads model.pretrained_embeddings (COLUMN=FILE each), and gives the model their widths, where no
/// option says one, and which are not to be trained. Files:
/// - Parquet, by raw id (prepare::read_vectors),
/// - .npy, and .safetensors with one matrix: [ids, width], row i of id i of the data, 0 is padding,
/// - .safetensors with a matrix and whole numbers `ids` [rows]: the raw ids of its rows.
///
/// Throws UsageError and FileError that name the option or the file: a column that is none, a value
/// of it without a vector or with two, vectors of another width.
PretrainedVectors take_pretrained(SessionArguments& arguments);

/// Draws the initial weights of a model, but for these embeddings.
train::Trainer::Fill fill_with(PretrainedVectors vectors);

}  // namespace convoy::tasks
