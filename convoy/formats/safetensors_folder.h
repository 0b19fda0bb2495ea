#pragma once

#include <cstdint>
#include <deque>
#include <filesystem>
#include <map>
#include <set>
#include <span>
#include <string>
#include <string_view>

#include "convoy/formats/safetensors.h"

namespace convoy::formats {

inline constexpr const char* kWeightsFile = "model.safetensors";
inline constexpr const char* kWeightsIndex = "model.safetensors.index.json";
/// PEFT's file of an adapter, which a folder has in place of these two.
inline constexpr const char* kAdapterFile = "adapter_model.safetensors";

/// Returns the file of each tensor, as `model.safetensors.index.json` has it. Throws FileError that
/// names `where`: not that kind of JSON, a tensor twice, a file that is not beside the index.
std::map<std::string, std::string> parse_safetensors_index(std::string_view text,
                                                           const std::string& where);

/// `file`, or where it is in shards their index, which has its name and an ending more.
std::filesystem::path file_or_index(const std::filesystem::path& file);

/// Whether `folder` holds weights: a file or an index, of a model or an adapter.
bool has_weights(const std::filesystem::path& folder);

/// Tensors of a file, mapped into memory, or of shards with an index in its place; of a folder:
/// those of `model.safetensors`, or where there is none of `adapter_model.safetensors`.
class SafetensorsFolder {
 public:
  /// Throws FileError that names what is wrong; of shards that do not fit the index, everything.
  explicit SafetensorsFolder(const std::filesystem::path& path);
  SafetensorsFolder(const SafetensorsFolder&) = delete;
  SafetensorsFolder& operator=(const SafetensorsFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }
  const std::deque<SafetensorsFile>& files() const { return files_; }
  /// Returns the file of each tensor.
  const std::map<std::string, const SafetensorsFile*>& tensors() const { return tensors_; }
  const SafetensorsEntry& entry(const std::string& name) const {
    return tensors_.at(name)->entry(name);
  }
  std::span<const std::byte> bytes(const std::string& name) const {
    return tensors_.at(name)->bytes(name);
  }
  void read(const std::string& name, size_t begin, size_t end, void* to) const {
    tensors_.at(name)->read(name, begin, end, to);
  }
  void read_ahead(const std::string& name, size_t begin, size_t end) const {
    tensors_.at(name)->read_ahead(name, begin, end);
  }

 private:
  void open_shards(const std::filesystem::path& index);

  std::filesystem::path path_;
  std::deque<SafetensorsFile> files_;
  std::map<std::string, const SafetensorsFile*> tensors_;
};

/// Files of a set of tensors, as Hugging Face writes them: one, or where they are more than
/// `max_shard_bytes` shards of at most that much (a larger tensor is a shard of its own) with an
/// index.
struct SafetensorsShards {
  std::map<std::string, std::vector<TensorInfo>> files;  ///< by name
  std::string index;       ///< its text; empty where there is one file
  std::string index_name;  ///< kWeightsIndex, of weights

  SafetensorsShards(std::span<const TensorInfo> tensors, size_t max_shard_bytes,
                    const std::string& file = kWeightsFile);
};

/// Weights and their index in `folder`.
std::vector<std::filesystem::path> list_weights(const std::filesystem::path& folder);

/// Removes them, all but those files.
void remove_weights(const std::filesystem::path& folder, const std::set<std::string>& but = {});

}  // namespace convoy::formats
