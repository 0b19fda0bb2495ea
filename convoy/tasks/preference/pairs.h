#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "convoy/chat/preference.h"
#include "convoy/tasks/chat/chat_data.h"

namespace convoy::tasks {

/// Reads pairs of answers as rows of tokens: of pair p the chosen answer with its prompt is row 2p,
/// the rejected one row 2p + 1.
struct PairReader {
  const chat::ChatTemplate* chat = nullptr;  ///< null: rows must be texts
  const tokenizers::Tokenizer* tokenizer = nullptr;
  const ChatOptions* options = nullptr;
  int64_t max_length = 0;  ///< of a prompt with an answer

  /// Rows of a file; adds sentences about them, with an example, to `notes`. Throws FileError and
  /// UsageError that name the file and the line, or the row.
  ChatRows read(const std::string& file, std::vector<std::string>& notes) const;
};

/// A number for each pair of such rows: pairs of the same tokens and targets have the same.
std::vector<uint64_t> keys_of_pairs(const ChatRows& rows);

}  // namespace convoy::tasks
