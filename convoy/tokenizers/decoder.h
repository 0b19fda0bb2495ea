#pragma once

#include <functional>
#include <string>
#include <vector>

#include "convoy/tokenizers/json_field.h"

namespace convoy::tokenizers {

/// A part of tokenizer.json's "decoder": rewrites the texts of tokens, which are joined at the end.
using Decoder = std::function<void(std::vector<std::string>& tokens)>;

/// Returns the steps of "decoder", in their order; without any, tokens are joined by spaces. Throws
/// FileError that names what is not supported.
std::vector<Decoder> make_decoders(const JsonField& part);

}  // namespace convoy::tokenizers
