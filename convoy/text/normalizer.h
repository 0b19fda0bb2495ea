#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "convoy/text/part.h"

namespace convoy::text {

/// A part of tokenizer.json's "normalizer": rewrites a text before it is cut.
class Normalizer {
 public:
  virtual ~Normalizer() = default;
  /// Appends the rewritten text.
  virtual void apply(std::string_view text, std::string& out) const = 0;
};

/// The steps of "normalizer", in their order. Throws FileError that names what is not supported.
std::vector<std::unique_ptr<Normalizer>> make_normalizers(const Part& part);

/// Runs all steps; the result is `text` itself or lies in `buffer`.
std::string_view normalize(const std::vector<std::unique_ptr<Normalizer>>& steps,
                           std::string_view text, std::string& buffer);

}  // namespace convoy::text
