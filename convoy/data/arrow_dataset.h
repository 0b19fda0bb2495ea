#pragma once

#include <arrow/record_batch.h>
#include <arrow/type.h>

#include <filesystem>
#include <functional>
#include <memory>
#include <vector>

#include "convoy/base/progress.h"

// Knows Arrow; for sources only.
namespace convoy::data {

/// Arrow's own files: `.arrow`, as a stream or a file, and folders of them that Hugging Face's
/// `datasets` saves (`save_to_disk`). Mapped into memory.
class ArrowDataset {
 public:
  /// Whether this is such a file, or such a folder by its state.json or dataset_dict.json.
  static bool is_one(const std::filesystem::path& where);

  /// Throws FileError where the folder is of several splits (of which none is "train"), or a file
  /// is missing or damaged.
  explicit ArrowDataset(const std::filesystem::path& where);

  const arrow::Schema& schema() const { return *schema_; }
  /// Calls `consume` with each batch of rows; `progress` counts files.
  void read(const std::function<void(const arrow::RecordBatch&)>& consume,
            const ProgressFn& progress) const;

 private:
  std::vector<std::filesystem::path> files_;
  std::shared_ptr<arrow::Schema> schema_;
};

}  // namespace convoy::data
