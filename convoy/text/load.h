#pragma once

#include <filesystem>

#include "convoy/text/parts.h"

namespace convoy::text {

/// Finds and reads the files of a tokenizer. Throws FileError.
Parts load_parts(const std::filesystem::path& path);

}  // namespace convoy::text
