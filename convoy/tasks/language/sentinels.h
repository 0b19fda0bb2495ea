#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "convoy/text/tokenizer.h"

namespace convoy::tasks {

/// The tokens <extra_id_0>, <extra_id_1>, ... that stand for hidden spans: the tokenizer's own, or
/// the hundred ids behind its last one, from the last to the first, as Hugging Face numbers T5's.
/// Without a tokenizer they are the model's last ids.
class Sentinels {
 public:
  static constexpr int64_t kUsual = 100;

  Sentinels() = default;
  /// `tokenizer` may be null. `num_ids`: of the model.
  Sentinels(const text::Tokenizer* tokenizer, int64_t num_ids);

  const std::vector<int64_t>& ids() const { return ids_; }

  /// Ids of a text that may hold sentinels by name, with what the tokenizer puts around texts.
  std::vector<int32_t> encode(const text::Tokenizer& tokenizer, const std::string& text) const;
  /// Text of ids, sentinels by name.
  std::string decode(const text::Tokenizer& tokenizer, const std::vector<int32_t>& ids) const;

 private:
  std::vector<int64_t> ids_;
  bool own_ = false;  // the tokenizer knows them
};

}  // namespace convoy::tasks
