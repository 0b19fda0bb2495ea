#include "convoy/checkpoint/merge.h"

#include <ATen/ATen.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <set>

#include "convoy/base/error.h"
#include "convoy/base/files.h"
#include "convoy/checkpoint/adapter_config.h"
#include "convoy/checkpoint/base_fingerprint.h"
#include "convoy/checkpoint/carried.h"
#include "convoy/checkpoint/dtypes.h"
#include "convoy/checkpoint/folder.h"
#include "convoy/checkpoint/matching.h"
#include "convoy/checkpoint/sums.h"
#include "convoy/models/language_model.h"
#include "convoy/nn/declare.h"

namespace convoy::checkpoint {
namespace fs = std::filesystem;

namespace {

/// Reads tensors of a folder, and compares each with its checksum.
class Checked {
 public:
  explicit Checked(const fs::path& path) : files_(path), sums_(expected_sums(files_)) {}

  const formats::SafetensorsFolder& files() const { return files_; }
  at::Tensor get(const std::string& name) const {
    check_sum(files_, name, sums_);
    return mapped(files_, name);
  }

 private:
  formats::SafetensorsFolder files_;
  std::map<std::string, uint64_t> sums_;
};

/// The model of a folder's config.json.
std::unique_ptr<models::LanguageModelConfig> model_of(const fs::path& folder) {
  const auto file = folder / kConfig;
  return models::read_model_config(read_config(file), file.string());
}

class Merge {
 public:
  explicit Merge(const fs::path& adapter)
      : config_(read_adapter_config(adapter)), own_(adapter / formats::kAdapterFile) {
    check_base(config_.base, adapter.string());
    base_ = std::make_unique<Checked>(config_.base);
    const auto model = model_of(config_folder(adapter));
    const auto layout = model->layout();
    for (const auto& param : nn::params_of(model->make_blocks())) {
      if (param->spec().in_first) in_first_.insert(param->spec().name);
    }
    for (const auto& [key, file] : own_.files().tensors()) {
      if (!key.starts_with(kPeftPrefix)) left_over_.insert(key);
      const auto name = key.substr(std::min(kPeftPrefix.size(), key.size()));
      if (name.ends_with(kLoraB)) continue;  // beside its A
      const bool is_down = name.ends_with(kLoraA);
      const auto weight =
          is_down ? name.substr(0, name.size() - kLoraA.size()) + std::string(kWeightEnd) : name;
      const auto& names = base_->files().tensors();
      const auto home = home_of(weight, layout);
      if (is_down && names.contains(home)) {
        adapted_[home] = key;
        if (in_first_.contains(weight)) in_first_.insert(home);
      } else if (is_down || !config_.is_saved(weight)) {
        left_over_.insert(key);
      } else if (weight == layout.head && !layout.tied_to.empty()) {
        fail<FileError>("checkpoint",
                        "{} has a trained {}, which the model in {} ties to {}; expected a model "
                        "with tie_word_embeddings = false",
                        adapter.string(), weight, config_.base, layout.tied_to);
      } else {
        replaced_[names.contains(home) ? home : weight] = key;  // or a head that the base lacks
      }
    }
    check_shapes(adapter);
    if (!left_over_.empty()) {
      refuse(adapter, ("does not fit the model " + config_.base + "; nothing takes: ").c_str(),
             {left_over_.begin(), left_over_.end()});
    }
  }

  std::vector<formats::TensorInfo> infos() const {
    std::vector<formats::TensorInfo> out;
    const auto& names = base_->files().tensors();
    for (const auto& [name, file] : names) {
      const auto own = replaced_.find(name);
      const auto& shape =
          own == replaced_.end() ? file->entry(name).shape : own_.files().entry(own->second).shape;
      out.push_back({name, file->entry(name).dtype, shape});
    }
    for (const auto& [name, key] : replaced_) {
      const auto& entry = own_.files().entry(key);
      if (!names.contains(name)) out.push_back({name, entry.dtype, entry.shape});
    }
    return out;
  }

  at::Tensor get(const std::string& name) const {
    if (const auto found = replaced_.find(name); found != replaced_.end()) {
      const auto value = own_.get(found->second);
      if (!base_->files().tensors().contains(name)) return value;
      return value.to(dtypes().at(base_->files().entry(name).dtype)).contiguous();
    }
    const auto weight = base_->get(name);
    const auto found = adapted_.find(name);
    if (found == adapted_.end()) return weight;
    const auto& key = found->second;
    const auto stem = key.substr(0, key.size() - kLoraA.size());
    const auto down = own_.get(key).to(at::kFloat);
    const auto up = own_.get(stem + std::string(kLoraB)).to(at::kFloat);
    auto added = at::mm(up, down).mul_(config_.scale_of(stem.substr(kPeftPrefix.size())));
    if (in_first_.contains(name)) added = added.t();
    if (added.sizes() != weight.sizes()) {
      refuse(own_.files().path(), "does not fit the model: ", {key});
    }
    return (weight.to(at::kFloat) + added).to(weight.scalar_type()).contiguous();
  }

  const AdapterConfig& config() const { return config_; }

 private:
  /// Name of a model's `weight` in the base, which may lack the prefix or spell it otherwise.
  std::string home_of(const std::string& weight, const models::WeightLayout& layout) const {
    const auto& names = base_->files().tensors();
    if (names.contains(weight)) return weight;
    for (const auto& [spelled, own] : layout.spellings) {
      if (!weight.starts_with(own)) continue;
      if (auto name = spelled + weight.substr(own.size()); names.contains(name)) return name;
    }
    const auto& prefix = layout.prefix;
    return weight.starts_with(prefix) ? weight.substr(prefix.size()) : weight;
  }

  /// Checks shapes: a weight of another shape, as for other labels, needs a config.json that says
  /// so.
  void check_shapes(const fs::path& adapter) const {
    if (fs::exists(adapter / kConfig)) return;
    for (const auto& [name, key] : replaced_) {
      const auto& names = base_->files().tensors();
      const auto& own = own_.files().entry(key).shape;
      if (!names.contains(name) || base_->files().entry(name).shape == own) continue;
      fail<FileError>("checkpoint",
                      "{} has a {} of [{}], the model in {} one of [{}]; expected a config.json "
                      "beside the adapter that tells the new sizes",
                      adapter.string(), name, fmt::join(own, ", "), config_.base,
                      fmt::join(base_->files().entry(name).shape, ", "));
    }
  }

  AdapterConfig config_;
  Checked own_;
  std::unique_ptr<Checked> base_;
  std::map<std::string, std::string> adapted_, replaced_;  // [weight of the base] key
  std::set<std::string> left_over_, in_first_;
};

/// Small files of the model, those of the adapter's folder over those of its base.
std::vector<std::string> take_over(const fs::path& base, const fs::path& adapter,
                                   const fs::path& to) {
  std::set<std::string> out;
  for (const auto& from : {base, adapter}) {
    const auto copied = copy_model_files(from, to, {kAdapterConfig, kBaseFingerprint, "README.md"});
    out.insert(copied.begin(), copied.end());
  }
  return {out.begin(), out.end()};
}

}  // namespace

Exported merge_adapter(const fs::path& adapter, const fs::path& to, int64_t max_shard_bytes,
                       const ProgressFn& progress) {
  check_new_folder(adapter, to);
  const Merge merge(adapter);
  check_new_folder(merge.config().base, to);
  const auto infos = merge.infos();
  AtomicFolder folder(to);
  auto out = write_model_files(
      folder.temporary(), infos, max_shard_bytes,
      [&](const std::string& name) { return merge.get(name); }, progress);
  out.others = take_over(merge.config().base, adapter, folder.temporary());
  folder.commit();
  return out;
}

}  // namespace convoy::checkpoint
