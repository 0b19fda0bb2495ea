#pragma once

#include <functional>
#include <string>
#include <string_view>

namespace convoy::tokenizers {

/// Members of a general category or class of them ("L", "Nd") as PCRE2 would write them inside
/// brackets: its own class and what it lacks, or all of it.
using CategoryWriter = std::function<std::string(std::string_view name, bool negated)>;

/// Rewrites a pattern of Oniguruma for PCRE2. Throws FileError, with `where`, for what has no exact
/// counterpart.
std::string to_pcre2(std::string_view pattern, const CategoryWriter& category,
                     const std::string& where);

}  // namespace convoy::tokenizers
