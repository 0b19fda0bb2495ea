#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "convoy/base/options.h"
#include "convoy/chat/chat_template.h"
#include "convoy/chat/row.h"
#include "convoy/data/mixture.h"
#include "convoy/dataset/batches.h"
#include "convoy/tokenizers/tokenizer.h"

namespace convoy::tasks {

/// Options of `[data]` of conversations that texts do not have.
struct ChatOptions {
  std::string train_on = "answers";
  std::string too_long = "cut";
  std::string chat_template;  ///< file
  std::string arguments;      ///< JSON
  std::string date;
  bool skip_corrupt = false;
  bool packing = false;
  std::optional<int64_t> pad_to_multiple_of;

  /// Declares the options of conversations that are learnt.
  void declare_learning(OptionTable& table);
  /// Declares those of all conversations.
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
  int64_t length(int64_t row) const { return end(row) - begin(row); }
  void add(const chat::Row& row);
  void add(const ChatRows& rows);
  /// Tokens that are learnt, over all rows.
  int64_t num_targets() const;
};

/// An error's text without the component that it begins with.
std::string sentence_of(std::string_view error);

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

/// Conversations of each row of a data set.
using RowsOfConversations = std::vector<std::vector<int64_t>>;

/// Conversations [first, last) of some rows.
struct ChatRange {
  int64_t first = 0, last = 0;
};

/// Conversations of a range, each in a row of its own; with `capacity` packed into rows of so many
/// tokens at most.
RowsOfConversations rows_of_conversations(const ChatRows& all, const ChatRange& range,
                                          std::optional<int64_t> capacity);

/// Columns that a model computed of the rows of a data set.
struct DerivedColumns {
  std::vector<std::string> names;
  /// Adds them to the batch of some rows, given by their numbers; empty: there are none.
  std::function<void(const std::vector<int64_t>& rows, nn::Bundle& batch)> add;
};

/// Padding of rows of conversations in batches.
struct ChatPadding {
  int64_t id = 0;
  int64_t multiple = 1;  ///< of the length of a micro-batch
  int64_t least = 2;     ///< length of a micro-batch
};

/// Rows for a causal model: `input_ids` and `labels` [rows, T], -100 where nothing is learnt,
/// padded to the longest of the micro-batch. Where `packed`, `documents` and `positions` keep the
/// conversations of a row apart (nn/documents.h), numbered from 0. With a mixture an epoch has the
/// rows that it draws.
std::shared_ptr<dataset::Dataset> make_chat_dataset(std::shared_ptr<const ChatRows> all,
                                                    RowsOfConversations rows, bool packed,
                                                    const ChatPadding& padding,
                                                    std::optional<data::Mixture> mixture = {},
                                                    const DerivedColumns& derived = {});

}  // namespace convoy::tasks
