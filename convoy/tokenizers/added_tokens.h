#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "convoy/tokenizers/json_field.h"

namespace convoy::tokenizers {

/// A token that is found in the text itself, before anything else looks at it.
struct AddedToken {
  std::string content;
  int32_t id = 0;
  bool lstrip = false;      ///< takes the white space before it
  bool rstrip = false;      ///< takes the white space behind it
  bool normalized = false;  ///< looked for in the normalized text
  bool special = false;     ///< left out where decode() skips special tokens
};

/// An element of "added_tokens" or of "added_tokens_decoder".
AddedToken read_added_token(const JsonField& part, int32_t id);

/// Finds tokens in a text: the leftmost, of several there the longest.
class TokenFinder {
 public:
  /// A stretch of the text: a token, or what lies between tokens (id Vocabulary::kNone).
  struct Stretch {
    size_t begin = 0;
    size_t end = 0;
    int32_t id = 0;
  };

  /// Tokens without content are left out.
  void add(const AddedToken& token, std::string_view content);
  bool empty() const { return tokens_.empty(); }

  /// Cuts the text; stretches between tokens are not empty.
  void cut(std::string_view text, std::vector<Stretch>& stretches) const;

 private:
  struct Found {
    std::string content;
    AddedToken token;
  };
  struct Node {
    std::vector<std::pair<unsigned char, int32_t>> next;  // few
    int32_t token = -1;
  };

  std::vector<Found> tokens_;
  std::vector<Node> nodes_{Node{}};
  int32_t root_[256] = {};  // node by first byte; 0: no token begins so
};

}  // namespace convoy::tokenizers
