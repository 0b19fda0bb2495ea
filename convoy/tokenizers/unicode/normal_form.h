#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace convoy::tokenizers {

/// Unicode's normal forms: decomposed or composed, with or without compatibility.
enum class NormalForm { D, C, KD, KC };

/// Appends the normal form of well-formed UTF-8, as Hugging Face's tokenizers make it: characters
/// that are younger than Unicode 9 stay as they are.
void append_normalized(std::string_view text, NormalForm form, std::string& out);

/// Appends NormalForm::C like append_normalized(). `from`: for each appended byte the place in
/// `text` of the character that `tokenizers` takes it for. A composed character stands for its
/// first one.
void append_composed(std::string_view text, std::string& out, std::vector<size_t>& from);

/// Appends the lower-case form of a character: one or two characters.
void append_lower(char32_t c, std::string& out);

}  // namespace convoy::tokenizers
