#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "convoy/tokenizers/json_field.h"

namespace convoy::tokenizers {

/// A part of tokenizer.json's "normalizer".
struct Normalizer {
  /// Appends what a text becomes before it is cut.
  using Apply = std::function<void(std::string_view text, std::string& out)>;
  /// Applies like Apply, into an empty `out`. `from`: for each of its bytes the place in `text` of
  /// the character that it comes from.
  using Follow =
      std::function<void(std::string_view text, std::string& out, std::vector<size_t>& from)>;

  Apply apply;
  Follow follow = {};  ///< none: nobody knows
};

/// Returns the steps of "normalizer", in their order. Throws FileError that names what is not
/// supported.
std::vector<Normalizer> make_normalizers(const JsonField& part);

/// Runs all steps; the result is `text` itself or lies in `buffer`.
std::string_view normalize(const std::vector<Normalizer>& steps, std::string_view text,
                           std::string& buffer);

}  // namespace convoy::tokenizers
