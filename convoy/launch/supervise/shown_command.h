#pragma once

#include <string>
#include <vector>

namespace convoy::launch {

/// A command as reports and other hosts may see it: what looks like a secret is blanked, be it the
/// value of `--token`, `--api-key` and the like or a token of Hugging Face's anywhere.
std::string shown_command(const std::vector<std::string>& words);

}  // namespace convoy::launch
