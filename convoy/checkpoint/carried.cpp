#include "convoy/checkpoint/carried.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cstring>
#include <set>

#include "convoy/base/checksum.h"
#include "convoy/base/error.h"
#include "convoy/base/file_status.h"
#include "convoy/base/files.h"
#include "convoy/base/json_number.h"
#include "convoy/base/text.h"
#include "convoy/checkpoint/dtypes.h"
#include "convoy/checkpoint/matching.h"
#include "convoy/checkpoint/sums.h"
#include "convoy/models/wrapper.h"

namespace convoy::checkpoint {
namespace fs = std::filesystem;

namespace {

bool same_bytes(std::span<const std::byte> one, std::span<const std::byte> other) {
  return one.size() == other.size() && std::memcmp(one.data(), other.data(), one.size()) == 0;
}

models::WeightLayout names_of(const models::WeightLayout& layout) {
  models::WeightLayout out;
  out.spellings = layout.spellings;
  out.others = layout.others;
  return out;
}

/// Number of layers of the vision tower that `names` belong to.
int64_t layers_in(const std::vector<std::string>& names) {
  constexpr std::string_view kLayers = ".layers.";
  std::set<std::string> found;
  for (const auto& name : names) {
    const auto at = name.find(kLayers);
    if (at == std::string::npos) continue;
    found.insert(name.substr(0, name.find('.', at + kLayers.size())));
  }
  return std::ssize(found);
}

bool is_changed(const struct stat& before, const struct stat& now) {
  const bool same_file = before.st_dev == now.st_dev && before.st_ino == now.st_ino;
  return same_file && !is_as_before(before, now);
}

}  // namespace

Carried::Carried(const fs::path& folder, const models::LanguageModelConfig& config)
    : folder_(folder),
      files_(std::make_shared<const formats::SafetensorsFolder>(folder)),
      layout_(names_of(config.layout())) {
  for (const auto& [name, file] : files_->tensors()) {
    respelled_ = respelled_ || model_name(name, layout_) != name;
    if (!is_of_others(name, layout_)) continue;
    names_.push_back(name);
    num_bytes_ += static_cast<int64_t>(files_->bytes(name).size());
    if (dtypes().contains(file->entry(name).dtype)) continue;
    fail<FileError>("checkpoint",
                    "{}: {} is {}, which cannot be carried along; expected F32, F16 or "
                    "BF16",
                    files_->path().string(), name, file->entry(name).dtype);
  }
  check_parts(config);
  for (const auto& file : files_->files()) {
    struct stat info{};
    ::stat(file.path().c_str(), &info);
    as_opened_.push_back(info);
  }
}

void Carried::check_parts(const models::LanguageModelConfig& config) const {
  const auto& wrapper = *config.wrapper();
  const auto refuse_lack = [&](const std::string& lack) {
    fail<FileError>("checkpoint",
                    "{} is of a {}, but {}; expected the weights of all its parts, which every "
                    "saved model carries along",
                    files_->path().string(), wrapper.model_type, lack);
  };
  for (const auto& part : wrapper.others) {
    const bool there = std::any_of(names_.begin(), names_.end(), [&](const auto& name) {
      return name.starts_with(part) || name.starts_with("model." + part);
    });
    if (!there) refuse_lack("has no weight " + part + "*");
  }
  const auto json = config.to_json();
  const auto vision = json.find("vision_config");
  if (vision == json.end() || !vision->is_object()) return;
  const auto wanted = whole_number<int64_t>(vision->value("num_hidden_layers", Json()));
  if (const auto found = layers_in(names_); wanted && *wanted != found) {
    refuse_lack(fmt::format("holds {} of the {} layers of its vision tower", found, *wanted));
  }
}

std::string Carried::file_name(const std::string& name) const {
  if (!respelled_) return name;
  for (const auto& [spelled, own] : layout_.spellings) {
    if (name.starts_with(own)) return spelled + name.substr(own.size());
  }
  return name;
}

void Carried::check_unchanged() const {
  for (size_t i = 0; i < as_opened_.size(); ++i) {
    const auto& path = files_->files()[i].path();
    struct stat now{};
    if (::stat(path.c_str(), &now) != 0 || !is_changed(as_opened_[i], now)) continue;
    fail<FileError>("checkpoint",
                    "{} was changed while this run went on, which carries weights of it along; "
                    "what was saved before is whole; try a copy of that model",
                    path.string());
  }
}

parallel::State Carried::with(parallel::State weights, bool main) const {
  if (main) check_unchanged();
  for (auto& tensor : weights) tensor.name = file_name(tensor.name);
  for (const auto& name : names_) {
    const auto& entry = files_->entry(name);
    const auto dtype = dtypes().at(entry.dtype);
    weights.push_back({name, entry.shape, dtype, {}, /*is_buffer=*/true, /*trained=*/false});
    const auto elements =
        static_cast<int64_t>(files_->bytes(name).size() / c10::elementSize(dtype));
    if (!main || elements == 0) continue;
    auto values = at::from_blob(
        const_cast<std::byte*>(files_->bytes(name).data()), {elements}, [files = files_](void*) {},
        dtype);
    weights.back().pieces.push_back({.begin = 0, .values = values, .constant = true});
  }
  return weights;
}

void Carried::check_sums() const {
  const auto sums = expected_sums(*files_);
  for (const auto& name : names_) check_sum(*files_, name, sums);
}

void Carried::check_same(const fs::path& saved) const {
  const formats::SafetensorsFolder other(saved);
  const auto sums = expected_sums(other);
  const auto same = [&](const std::string& name) {
    if (!other.tensors().contains(name)) return false;
    const auto &own = files_->entry(name), &theirs = other.entry(name);
    if (own.dtype != theirs.dtype || own.shape != theirs.shape) return false;
    const auto bytes = files_->bytes(name);
    const auto sum = sums.find(name);
    if (sum == sums.end()) return same_bytes(bytes, other.bytes(name));
    const size_t width = formats::safetensors_dtype_bytes(own.dtype);
    return checksum(bytes.data(), bytes.size() / width, width, 0) == sum->second;
  };
  for (const auto& name : names_) {
    if (same(name)) continue;
    fail<UsageError>("train",
                     "{} carries other weights along than those of {}: {} differs; try the model "
                     "that the run began with",
                     saved.string(), folder_.string(), name);
  }
}

Json read_config(const fs::path& file) {
  constexpr const char* kTied = "tie_word_embeddings";
  auto json = parse_json(read_file(file), file.string());
  const auto* wrapper = models::wrapper_of(json, file.string());
  const auto folder = file.parent_path();
  if (wrapper == nullptr || json.contains(kTied) || !formats::has_weights(folder)) return json;
  const formats::SafetensorsFolder weights(folder);
  models::WeightLayout layout;
  layout.spellings = wrapper->spellings;
  std::string head, table;
  for (const auto& [name, where] : weights.tensors()) {
    const auto own = model_name(name, layout);
    if (own == "lm_head.weight") head = name;
    if (own == std::string(models::kTextBody) + "embed_tokens.weight") table = name;
  }
  json[kTied] =
      head.empty() || table.empty() || same_bytes(weights.bytes(head), weights.bytes(table));
  return json;
}

}  // namespace convoy::checkpoint
