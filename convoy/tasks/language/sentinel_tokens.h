#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "convoy/models/language_model.h"
#include "convoy/tokenizers/tokenizer.h"

namespace convoy::tasks {

/// Tokens that stand for hidden spans (T5's <extra_id_0>, <extra_id_1>, ...): the tokenizer's
/// own, or the usual number of ids behind its last one, from the last to the first, as Hugging Face
/// numbers them. Without a tokenizer they are the model's last ids.
/// masking/span_corruption.h hides the spans.
class Sentinels {
 public:
  Sentinels() = default;
  /// `tokens`: of the model's family. `tokenizer` may be null. `num_ids`: of the model.
  Sentinels(models::SpanTokens tokens, const tokenizers::Tokenizer* tokenizer, int64_t num_ids);

  const std::vector<int64_t>& ids() const { return ids_; }

  /// Ids of a text that may hold sentinels by name, with what the tokenizer puts around texts.
  std::vector<int32_t> encode(const tokenizers::Tokenizer& tokenizer,
                              const std::string& text) const;
  /// Text of ids, sentinels by name.
  std::string decode(const tokenizers::Tokenizer& tokenizer, const std::vector<int32_t>& ids) const;

 private:
  int64_t number_at(std::string_view text, size_t at) const;

  models::SpanTokens tokens_;
  std::vector<int64_t> ids_;
  bool own_ = false;  // the tokenizer knows them
};

}  // namespace convoy::tasks
