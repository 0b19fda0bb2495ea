#pragma once

#include <cstdint>
#include <vector>

#include "convoy/tokenizers/json_field.h"

namespace convoy::tokenizers {

/// Ids that stand before and behind those of a text.
struct SpecialFrame {
  std::vector<int32_t> before;
  std::vector<int32_t> behind;
};

/// "post_processor" of tokenizer.json, for single texts. Throws FileError that names what is not
/// supported.
SpecialFrame make_frame(const JsonField& part);

}  // namespace convoy::tokenizers
