#include "convoy/checkpoint/dequantize.h"

#include <ATen/ATen.h>
#include <fmt/ranges.h>

#include <string>
#include <vector>

#include "convoy/base/error.h"
#include "convoy/base/files.h"
#include "convoy/checkpoint/carried.h"
#include "convoy/checkpoint/folder.h"
#include "convoy/checkpoint/matching.h"
#include "convoy/checkpoint/mxfp4.h"
#include "convoy/formats/safetensors_folder.h"

namespace convoy::checkpoint {
namespace fs = std::filesystem;

namespace {

constexpr std::string_view kBlocks = "_blocks", kScales = "_scales";
constexpr const char* kQuantization = "quantization_config";

/// The model's config without its quantization.
Json plain_config(const fs::path& from) {
  auto config = read_config(from / kConfig);
  const auto how = config.value(kQuantization, Json::object()).value("quant_method", Json());
  if (how != "mxfp4") {
    fail<FileError>("checkpoint",
                    "{} has no quantization_config with quant_method = mxfp4; there is nothing to "
                    "dequantize",
                    (from / kConfig).string());
  }
  config.erase(kQuantization);
  return config;
}

class Dequantized {
 public:
  explicit Dequantized(const fs::path& from) : files_(from) {
    std::vector<std::string> wrong;
    for (const auto& [name, file] : files_.tensors()) {
      const auto& entry = file->entry(name);
      if (name.ends_with(kScales) && has(stem_of(name, kScales), kBlocks)) continue;
      if (name.ends_with(kScales) && entry.dtype == "U8") {
        wrong.push_back(name + " has no blocks");
        continue;
      }
      if (!name.ends_with(kBlocks)) {
        infos_.push_back({name, entry.dtype, entry.shape});
        continue;
      }
      const auto stem = stem_of(name, kBlocks);
      auto groups = entry.shape;  // [E, C, G, 16]
      if (!groups.empty()) groups.pop_back();
      const bool fits = entry.dtype == "U8" && groups.size() == 3 && entry.shape.back() == 16 &&
                        has(stem, kScales) && scales_of(stem).dtype == "U8" &&
                        scales_of(stem).shape == groups;
      if (!fits) {
        wrong.push_back(fmt::format("{} is {} [{}] without scales that fit", name, entry.dtype,
                                    fmt::join(entry.shape, ", ")));
        continue;
      }
      infos_.push_back({stem, "BF16", {groups[0], 32 * groups[2], groups[1]}});
    }
    if (!wrong.empty()) refuse(files_.path(), "holds no MXFP4 weights of gpt-oss: ", wrong);
  }

  const std::vector<formats::TensorInfo>& infos() const { return infos_; }

  /// A tensor of the new model: matrices of experts [E, R, C], as gpt-oss multiplies rows.
  at::Tensor get(const std::string& name) const {
    if (files_.tensors().contains(name)) return mapped(files_, name);
    const auto blocks = mapped(files_, name + std::string(kBlocks));
    const auto scales = mapped(files_, name + std::string(kScales));
    return from_mxfp4(blocks, scales).transpose(1, 2).contiguous();
  }

 private:
  static std::string stem_of(const std::string& name, std::string_view end) {
    return name.substr(0, name.size() - end.size());
  }
  bool has(const std::string& stem, std::string_view end) const {
    return files_.tensors().contains(stem + std::string(end));
  }
  const formats::SafetensorsEntry& scales_of(const std::string& stem) const {
    return files_.entry(stem + std::string(kScales));
  }

  formats::SafetensorsFolder files_;
  std::vector<formats::TensorInfo> infos_;
};

}  // namespace

Exported dequantize(const fs::path& from, const fs::path& to, int64_t max_shard_bytes,
                    const ProgressFn& progress) {
  check_new_folder(from, to);
  const auto config = plain_config(from);
  const Dequantized model(from);
  AtomicFolder folder(to);
  auto out = write_model_files(
      folder.temporary(), model.infos(), max_shard_bytes,
      [&](const std::string& name) { return model.get(name); }, progress);
  write_file(folder.temporary() / kConfig, json_text(config));
  out.others = copy_model_files(from, folder.temporary(), {kConfig});
  folder.commit();
  return out;
}

}  // namespace convoy::checkpoint
