#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "convoy/base/options.h"
#include "convoy/chat/chat_template.h"
#include "convoy/chat/row.h"
#include "convoy/tokenizers/tokenizer.h"
#include "convoy/train/batches.h"

namespace convoy::tasks {

/// Options of `[data]` of conversations that texts do not have.
struct ChatOptions {
  std::string train_on = "answers";
  std::string too_long = "cut";
  std::string chat_template;  ///< file
  std::string arguments;      ///< JSON
  std::string date;
  bool skip_corrupt = false;
  std::optional<int64_t> pad_to_multiple_of;

  void declare(OptionTable& table);
  /// Throws UsageError where they are no object of JSON.
  chat::OrderedJson read_arguments() const;
};

/// Tokens of conversations, one after the other.
struct ChatRows {
  std::vector<int32_t> ids;
  std::vector<bool> is_target;
  std::vector<int64_t> ends;  ///< of each row in `ids`

  int64_t size() const { return static_cast<int64_t>(ends.size()); }
  int64_t begin(int64_t row) const { return row == 0 ? 0 : ends[static_cast<size_t>(row - 1)]; }
  int64_t end(int64_t row) const { return ends[static_cast<size_t>(row)]; }
  void add(const chat::Row& row);
  /// Tokens that are learnt, over all rows.
  int64_t num_targets() const;
};

/// Reads conversations as rows of tokens.
struct ChatReader {
  const chat::ChatTemplate* chat = nullptr;  ///< null: rows must be texts
  const tokenizers::Tokenizer* tokenizer = nullptr;
  const ChatOptions* options = nullptr;
  int64_t max_length = 0;

  /// Rows of a file; adds sentences about them, with an example, to `notes`. Throws FileError and
  /// UsageError that name the file and the line, or the row.
  ChatRows read(const std::string& file, std::vector<std::string>& notes) const;
};

/// Rows [first, last) for a causal model: `input_ids` and `labels` [rows, T], -100 where nothing is
/// learnt; padded to the longest of the micro-batch, to a multiple of `multiple`, and to `least`.
std::shared_ptr<train::Dataset> make_chat_dataset(std::shared_ptr<const ChatRows> rows,
                                                  int64_t first, int64_t last, int64_t multiple,
                                                  int64_t least, int64_t padding_id);

}  // namespace convoy::tasks
