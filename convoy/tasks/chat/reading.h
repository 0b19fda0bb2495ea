#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "convoy/chat/conversation.h"
#include "convoy/chat/row.h"
#include "convoy/tasks/chat/chat_data.h"

// Steps that reading conversations and reading pairs of answers share.
namespace convoy::tasks {

/// Number of rows of a kind, and where the first one is.
struct RowCount {
  int64_t number = 0;
  std::string first;

  void add(const std::string& where) {
    if (number++ == 0) first = where;
  }
};

/// Counts a row that cannot be read. Throws FileError with its `error` unless skip_corrupt.
void take_corrupt(const std::string& error, const ChatOptions& options, RowCount& corrupt);

/// Counts a row that the template or the tokenizer refuses by `error`. Throws UsageError with it
/// unless skip_corrupt.
void take_refused(const std::string& error, const std::string& where, const ChatOptions& options,
                  RowCount& corrupt);

/// Number of corrupt rows and the first error, as the end of a message that no row is left; "":
/// none is corrupt.
std::string told_corrupt(const RowCount& corrupt);

/// Throws UsageError where there is no template for the messages of a row.
void expect_template(const chat::ChatTemplate* chat, const std::string& where);

/// Gives a conversation the template's `arguments`, over which its own stand.
void add_arguments(const chat::OrderedJson& arguments, chat::Dialogue& dialogue);

/// Adds a note where the tokenizer has no token that ends texts, though `texts` of the rows of a
/// file are texts.
void note_missing_end(const tokenizers::Tokenizer& tokenizer, const RowCount& texts,
                      std::vector<std::string>& notes);

/// Cuts a row to at most `length` tokens.
void cut_row(chat::Row& row, int64_t length);

}  // namespace convoy::tasks
