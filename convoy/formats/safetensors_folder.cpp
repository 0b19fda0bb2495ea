#include "convoy/formats/safetensors_folder.h"

#include <algorithm>
#include <set>
#include <vector>

#include "convoy/base/error.h"
#include "convoy/base/files.h"
#include "convoy/base/text.h"
#include "convoy/formats/json_object.h"

namespace convoy::formats {
namespace fs = std::filesystem;

namespace {

constexpr const char* kIndexEnding = ".index.json";

/// Names of files that hold weights of a model, whole or in shards.
bool is_weights_name(const std::string& name) {
  return name == kWeightsFile || name == kWeightsIndex || name == kAdapterFile ||
         (name.starts_with("model-") && name.ends_with(".safetensors") &&
          name.find("-of-") != std::string::npos);
}

size_t bytes_of(const TensorInfo& tensor) {
  size_t bytes = 0;
  safetensors_bytes(tensor.dtype, tensor.shape, bytes);
  return bytes;
}

/// Returns the tensors cut into shards, in order.
std::vector<std::vector<TensorInfo>> cut(std::span<const TensorInfo> tensors,
                                         size_t max_shard_bytes) {
  std::vector<std::vector<TensorInfo>> shards(1);
  size_t filled = 0;
  for (const auto& tensor : tensors) {
    const size_t bytes = bytes_of(tensor);
    if (!shards.back().empty() && filled + bytes > max_shard_bytes) {
      shards.emplace_back();
      filled = 0;
    }
    shards.back().push_back(tensor);
    filled += bytes;
  }
  return shards;
}

}  // namespace

std::map<std::string, std::string> parse_safetensors_index(std::string_view text,
                                                           const std::string& where) {
  const Json json = parse_json_object(text, where);
  const auto map = json.find("weight_map");
  if (map == json.end() || !map->is_object()) {
    fail<FileError>("formats", "{}: weight_map is missing or not an object", where);
  }
  if (map->empty()) {
    fail<FileError>("formats", "{}: weight_map names no tensor", where);
  }
  std::map<std::string, std::string> out;
  for (const auto& [name, file] : map->items()) {
    if (!file.is_string()) {
      fail<FileError>("formats", "{}: the file of {} is {}; expected a name", where, name,
                      file.dump());
    }
    const auto text_of = file.get<std::string>();
    if (!text_of.ends_with(".safetensors") ||
        text_of.find_first_of(std::string_view("/\\\0", 3)) != std::string::npos) {
      fail<FileError>("formats",
                      "{}: the file of {} is {}; expected the name of a .safetensors file beside "
                      "the index",
                      where, name, file.dump());
    }
    out[name] = text_of;
  }
  return out;
}

fs::path file_or_index(const fs::path& file) {
  std::error_code error;
  fs::path index = file;
  index += kIndexEnding;
  return !fs::exists(file, error) && fs::exists(index, error) ? index : file;
}

bool has_weights(const fs::path& folder) {
  std::error_code error;
  return fs::exists(folder / kWeightsFile, error) || fs::exists(folder / kWeightsIndex, error) ||
         fs::exists(folder / kAdapterFile, error);
}

SafetensorsFolder::SafetensorsFolder(const fs::path& path) : path_(path) {
  std::error_code error;
  if (fs::is_directory(path, error)) {
    if (!has_weights(path)) {
      fail<FileError>("formats",
                      "{} holds no weights; expected {} or {}; try save_pretrained with "
                      "safe_serialization where there are other formats",
                      path.string(), kWeightsFile, kWeightsIndex);
    }
    path_ = path / kWeightsFile;
    const auto adapter = path / kAdapterFile;
    if (!fs::exists(file_or_index(path_), error)) path_ = adapter;
  }
  if (const auto index = file_or_index(path_); index != path_) {
    path_ = path;
    open_shards(index);
    return;
  }
  files_.emplace_back(path_);
  for (const auto& [name, entry] : files_.back().entries()) tensors_[name] = &files_.back();
}

void SafetensorsFolder::open_shards(const fs::path& index) {
  const auto file_of = parse_safetensors_index(read_regular_file(index), index.string());
  std::set<std::string> shards;
  for (const auto& [name, file] : file_of) shards.insert(file);
  const auto folder = index.parent_path();
  std::vector<std::string> wrong;
  for (const auto& shard : shards) {
    std::error_code error;
    if (!fs::exists(folder / shard, error)) {
      wrong.push_back(shard + " is missing");
      continue;
    }
    files_.emplace_back(folder / shard);
    for (const auto& [name, entry] : files_.back().entries()) {
      auto [found, fresh] = tensors_.emplace(name, &files_.back());
      const auto listed = file_of.find(name);
      if (!fresh) {
        wrong.push_back(fmt::format("{} is in {} and in {}", name,
                                    found->second->path().filename().string(), shard));
      } else if (listed == file_of.end()) {
        wrong.push_back(fmt::format("{} is in {} but not in the index", name, shard));
      } else if (listed->second != shard) {
        wrong.push_back(fmt::format("{} is in {} instead of {}", name, shard, listed->second));
      }
    }
  }
  for (const auto& [name, file] : file_of) {
    if (tensors_.contains(name)) continue;
    if (fs::exists(folder / file)) wrong.push_back(fmt::format("{} is not in {}", name, file));
  }
  if (wrong.empty()) return;
  fail<FileError>("formats", "{} does not fit its files: {}", index.string(), join(wrong, "; "));
}

SafetensorsShards::SafetensorsShards(std::span<const TensorInfo> tensors, size_t max_shard_bytes,
                                     const std::string& file)
    : index_name(file + kIndexEnding) {
  const auto shards = cut(tensors, max_shard_bytes);
  if (shards.size() == 1) {
    files[file] = shards[0];
    return;
  }
  const auto stem = fs::path(file).stem().string();
  Json map = Json::object();
  size_t bytes = 0, elements = 0;
  for (size_t i = 0; i < shards.size(); ++i) {
    const auto name = fmt::format("{}-{:05}-of-{:05}.safetensors", stem, i + 1, shards.size());
    files[name] = shards[i];
    for (const auto& tensor : shards[i]) {
      map[tensor.name] = name;
      bytes += bytes_of(tensor);
      elements += bytes_of(tensor) / std::max<size_t>(1, safetensors_dtype_bytes(tensor.dtype));
    }
  }
  index = Json{{"metadata", {{"total_parameters", elements}, {"total_size", bytes}}},
               {"weight_map", map}}
              .dump(2) +
          "\n";
}

std::vector<fs::path> list_weights(const fs::path& folder) {
  std::vector<fs::path> out;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    if (is_weights_name(entry.path().filename().string())) out.push_back(entry.path());
  }
  return out;
}

void remove_weights(const fs::path& folder, const std::set<std::string>& but) {
  std::error_code error;
  for (const auto& path : list_weights(folder)) {
    if (!but.contains(path.filename().string())) fs::remove(path, error);
  }
}

}  // namespace convoy::formats
