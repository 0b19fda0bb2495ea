#pragma once

#include <memory>
#include <string>
#include <vector>

#include "convoy/text/part.h"

namespace convoy::text {

/// A part of tokenizer.json's "decoder": rewrites the texts of tokens, which are joined at the end.
class Decoder {
 public:
  virtual ~Decoder() = default;
  virtual void apply(std::vector<std::string>& tokens) const = 0;
};

/// The steps of "decoder", in their order; without any, tokens are joined by spaces. Throws
/// FileError that names what is not supported.
std::vector<std::unique_ptr<Decoder>> make_decoders(const Part& part);

}  // namespace convoy::text
