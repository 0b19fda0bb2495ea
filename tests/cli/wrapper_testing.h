#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "convoy/base/files.h"
#include "convoy/base/json.h"
#include "convoy/formats/safetensors_folder.h"

namespace convoy {

using Bytes = std::vector<std::byte>;

/// Writes tensors as the weights of `folder`.
inline void write_weights(
    const std::filesystem::path& folder,
    const std::vector<std::tuple<std::string, std::string, std::vector<int64_t>, Bytes>>& tensors) {
  std::vector<formats::TensorView> views;
  for (const auto& [name, dtype, shape, bytes] : tensors) {
    views.push_back({name, dtype, shape, bytes.data(), bytes.size()});
  }
  formats::write_safetensors(folder / formats::kWeightsFile, views);
}

inline Bytes bytes_of(const formats::SafetensorsFolder& files, const std::string& name) {
  const auto bytes = files.bytes(name);
  return {bytes.begin(), bytes.end()};
}

/// Names of the parts that make_wrapper() adds, without what may be in front of them.
inline const std::vector<std::string> kOtherTensors{
    "multi_modal_projector.norm.weight", "vision_tower.vision_model.encoder.layers.0.q_proj.weight",
    "vision_tower.vision_model.encoder.layers.1.q_proj.weight"};

/// Makes of the language model in `text` a folder `to` as the hub has wrappers of `model_type`:
/// text weights by old names, or by those of Hugging Face's class, and other parts in bf16.
inline void make_wrapper(const std::filesystem::path& text, const std::filesystem::path& to,
                         const std::string& model_type, bool old_names, int first_byte = 1) {
  namespace fs = std::filesystem;
  make_folder(to);
  for (const auto& entry : fs::directory_iterator(text)) {
    const auto name = entry.path().filename().string();
    if (name.find("token") != std::string::npos || name.starts_with("vocab")) {
      fs::copy(entry.path(), to / name);
    }
  }
  const auto file = text / "config.json";
  auto config = parse_json(read_file(file), file.string());
  const bool tied = config.at("tie_word_embeddings").get<bool>();
  config.erase("architectures");
  const Json all{{"model_type", model_type},
                 {"text_config", config},
                 {"tie_word_embeddings", tied},
                 {"vision_config", {{"num_hidden_layers", 2}, {"hidden_size", 3}}},
                 {"image_token_index", 999}};
  write_file(to / "config.json", all.dump());
  std::vector<std::tuple<std::string, std::string, std::vector<int64_t>, Bytes>> tensors;
  const formats::SafetensorsFolder from(text);
  for (const auto& [name, source] : from.tensors()) {
    const bool is_head = name.starts_with("lm_head.");
    const auto rest = name.substr(is_head ? 0 : std::string("model.").size());
    const auto spelled = old_names ? "language_model." + name
                         : is_head ? name
                                   : "model.language_model." + rest;
    const auto& entry = from.entry(name);
    tensors.emplace_back(spelled, entry.dtype, entry.shape, bytes_of(from, name));
  }
  int next = first_byte;
  for (const auto& name : kOtherTensors) {
    Bytes bytes(2 * 3 * 5);
    for (auto& byte : bytes) byte = static_cast<std::byte>(next = next * 5 % 101 + 3);
    tensors.emplace_back(old_names ? name : "model." + name, "BF16", std::vector<int64_t>{3, 5},
                         bytes);
  }
  write_weights(to, tensors);
}

/// All of the other parts' weights are in `saved` as they are in `base`, and all names are the
/// same.
inline void expect_carried(const std::filesystem::path& base, const std::filesystem::path& saved) {
  const formats::SafetensorsFolder from(base), to(saved);
  int others = 0;
  for (const auto& [name, file] : from.tensors()) {
    ASSERT_TRUE(to.tensors().contains(name)) << name;
    if (name.find("vision_tower") == std::string::npos &&
        name.find("projector") == std::string::npos)
      continue;
    ++others;
    EXPECT_EQ(to.entry(name).dtype, from.entry(name).dtype) << name;
    EXPECT_EQ(to.entry(name).shape, from.entry(name).shape) << name;
    EXPECT_TRUE(bytes_of(from, name) == bytes_of(to, name)) << name;
  }
  EXPECT_EQ(others, std::ssize(kOtherTensors));
  EXPECT_EQ(to.tensors().size(), from.tensors().size());
}

}  // namespace convoy
