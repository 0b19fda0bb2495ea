#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace convoy::data {

/// JSON whose objects keep the order of their keys.
using OrderedJson = nlohmann::ordered_json;

/// Whether read_json_rows() reads a file of this name.
bool holds_json_rows(const std::filesystem::path& file);

/// Calls `row(object, where)` for each row of a file: the objects of `.jsonl`, also `.jsonl.gz` and
/// `.jsonl.zst`, or those of `columns` that `.parquet` has, without what is null there. `where`
/// names the file and the line, or the row. `broken(trouble)` is called for each line that is no
/// JSON, and may throw. Throws FileError where the file cannot be read.
void read_json_rows(const std::filesystem::path& file, const std::vector<std::string>& columns,
                    const std::function<void(OrderedJson object, const std::string& where)>& row,
                    const std::function<void(const std::string& trouble)>& broken);

}  // namespace convoy::data
