#pragma once

#include "convoy/data/parquet_files.h"
#include "convoy/formats/schema.h"
#include "convoy/models/session/session.h"

namespace convoy::tasks {

/// Whether the schema says that a column holds vectors that somebody made before: it has the tag
/// `embedding`, as inputs of pre-trained embeddings in Transformers4Rec have.
bool holds_vectors(const formats::Feature& feature);

/// Gives `feature` what the file says of its vectors: one a row or one for each item, and how wide
/// the first is. Throws FileError where there is none, or where `schema`, a feature whose
/// valueCount has one length only, says another width.
void take_vectors(const data::ParquetFiles& data, const formats::Feature& schema,
                  models::SessionFeature& feature);

/// Has `selection` read the model's vectors as such.
void select_vectors(const models::SessionConfig& model, data::Selection& selection);

/// Throws FileError unless each row has the vectors that the model reads. Reads all of them once.
void check_vectors(const data::ParquetFiles& data, const models::SessionConfig& model);

}  // namespace convoy::tasks
