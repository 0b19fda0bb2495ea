#include "convoy/checkpoint/export.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "convoy/base/error.h"
#include "convoy/base/files.h"
#include "convoy/base/text.h"
#include "convoy/checkpoint/dtypes.h"
#include "convoy/checkpoint/folder.h"
#include "convoy/checkpoint/manifest.h"
#include "convoy/checkpoint/matching.h"
#include "convoy/checkpoint/sums.h"
#include "convoy/comm/to_host.h"
#include "convoy/formats/safetensors_folder.h"
#include "convoy/parallel/buffers/finite.h"

namespace convoy::checkpoint {
namespace fs = std::filesystem;

void check_new_folder(const fs::path& from, const fs::path& to) {
  if (to.empty()) {
    fail<UsageError>("checkpoint", "the new folder has no name; try a path such as model");
  }
  std::error_code error;
  if (!fs::exists(to, error) && fs::is_symlink(to, error)) {
    fail<FileError>("checkpoint", "{} is a link that leads nowhere; try another folder",
                    to.string());
  }
  if (fs::exists(to, error) && !(fs::is_directory(to, error) && fs::is_empty(to, error))) {
    fail<FileError>("checkpoint", "{} is there already; try another folder", to.string());
  }
  const auto outer = fs::canonical(from), inner = fs::weakly_canonical(to);
  if (std::mismatch(outer.begin(), outer.end(), inner.begin(), inner.end()).first == outer.end()) {
    fail<UsageError>("checkpoint", "{} lies in {}, which is read; try a folder beside it",
                     to.string(), from.string());
  }
}

bool belongs_to_model(const fs::directory_entry& entry) {
  static const std::vector<std::string> kEnds{".safetensors", ".index.json", "_results.json",
                                              ".bin",         ".pt",         ".pth"};
  static const std::vector<std::string> kNames{kState, Manifest::kName, "log.jsonl"};
  const auto name = entry.path().filename().string();
  std::error_code error;
  return fs::is_regular_file(entry.path(), error) && !name.starts_with(".") &&
         std::find(kNames.begin(), kNames.end(), name) == kNames.end() &&
         std::none_of(kEnds.begin(), kEnds.end(),
                      [&](const auto& end) { return name.ends_with(end); });
}

std::vector<std::string> copy_model_files(const fs::path& from, const fs::path& to,
                                          const std::vector<std::string>& but) {
  std::vector<std::string> out;
  for (const auto& entry : fs::directory_iterator(from)) {
    const auto name = entry.path().filename().string();
    if (!belongs_to_model(entry) || std::find(but.begin(), but.end(), name) != but.end()) continue;
    copy_into(entry.path(), to / name);
    out.push_back(name);
  }
  return out;
}

Exported write_model_files(const fs::path& folder, const std::vector<formats::TensorInfo>& infos,
                           int64_t max_shard_bytes,
                           const std::function<at::Tensor(const std::string& name)>& get,
                           const ProgressFn& progress) {
  const formats::SafetensorsShards shards(infos, static_cast<size_t>(max_shard_bytes));
  Exported out;
  for (const auto& [name, tensors] : shards.files) {
    const formats::SafetensorsPlan plan(tensors);
    formats::SafetensorsPieces::create(folder / name, plan);
    formats::SafetensorsPieces file(folder / name);
    for (const auto& tensor : tensors) {
      const auto value = get(tensor.name);
      file.write(plan.begin.at(tensor.name), value.const_data_ptr(), value.nbytes());
      ++out.num_tensors;
      out.num_bytes += static_cast<int64_t>(value.nbytes());
      if (progress) progress(out.num_tensors, std::ssize(infos));
    }
    out.weights.push_back(name);
  }
  if (!shards.index.empty()) write_file(folder / formats::kWeightsIndex, shards.index);
  return out;
}

namespace {

/// Spelling of a dtype in Hugging Face's config.json and in safetensors.
struct Spelling {
  const char* config;
  const char* file;
};
const std::map<std::string, Spelling> kSpellings{
    {"fp32", {"float32", "F32"}}, {"bf16", {"bfloat16", "BF16"}}, {"fp16", {"float16", "F16"}}};

/// Whether tensors of that dtype hold real or complex numbers that cannot be converted here.
bool is_foreign(const std::string& dtype) {
  return dtype.starts_with("F8") || dtype == "C64";
}

class Export {
 public:
  Export(const fs::path& from, const ExportOptions& options)
      : files_(from), sums_(expected_sums(files_)), options_(options) {
    std::vector<formats::TensorInfo> infos;
    for (const auto& [name, file] : files_.tensors()) {
      const auto& entry = file->entry(name);
      if (!options.dtype.empty() && is_foreign(entry.dtype)) kept_.push_back(name);
      infos.push_back({name, dtype_of(entry.dtype), entry.shape});
      total_ += static_cast<int64_t>(entry.end - entry.begin);
    }
    shards_.emplace(infos, static_cast<size_t>(options.max_shard_bytes));
  }

  void write(const fs::path& to, const ProgressFn& progress) {
    int64_t read = 0;
    for (const auto& [name, tensors] : shards_->files) {
      const formats::SafetensorsPlan plan(tensors);
      formats::SafetensorsPieces::create(to / name, plan);
      formats::SafetensorsPieces out(to / name);
      for (const auto& tensor : tensors) {
        write(tensor, plan.begin.at(tensor.name), out);
        read += static_cast<int64_t>(files_.bytes(tensor.name).size());
        if (progress) progress(read, total_);
      }
      written_.weights.push_back(name);
    }
    if (!shards_->index.empty()) write_file(to / formats::kWeightsIndex, shards_->index);
  }

  void take_over(const fs::path& from, const fs::path& to) {
    auto& others = written_.others;
    others = copy_model_files(from, to, {kConfig});
    if (belongs_to_model(fs::directory_entry(from / kConfig))) {
      write_file(to / kConfig, config(from / kConfig));
      others.emplace_back(kConfig);
    } else {
      written_.warnings.push_back(
          fmt::format("there is no {} in {}: nothing tells which model the weights are of", kConfig,
                      from.string()));
    }
    std::sort(others.begin(), others.end());
  }

  /// Adds warnings about unusual tensors.
  void warning() {
    const auto note = [this](const std::vector<std::string>& names, const std::string& what) {
      constexpr size_t kShown = 5;
      if (names.empty()) return;
      auto shown = names;
      shown.resize(std::min(kShown, shown.size()));
      const auto more = names.size() - shown.size();
      written_.warnings.push_back(fmt::format("{}: {}{}", what, join(shown),
                                              more > 0 ? fmt::format(" and {} more", more) : ""));
    };
    note(kept_, fmt::format("tensors whose dtype cannot become {} were written as they are",
                            options_.dtype));
    note(not_finite_, "tensors hold numbers that are not finite");
  }

  Exported written_;

 private:
  std::string dtype_of(const std::string& dtype) const {
    return options_.dtype.empty() || !is_real(dtype) ? dtype : kSpellings.at(options_.dtype).file;
  }

  void write(const formats::TensorInfo& tensor, size_t place, formats::SafetensorsPieces& out) {
    const auto bytes = files_.bytes(tensor.name);
    const auto& dtype = files_.entry(tensor.name).dtype;
    check_sum(files_, tensor.name, sums_);
    ++written_.num_tensors;
    const bool finite = !is_real(dtype) || parallel::is_finite(mapped(files_, tensor.name));
    if (!finite) not_finite_.push_back(tensor.name);
    if (tensor.dtype == dtype) {
      out.write(place, bytes.data(), bytes.size());
      written_.num_bytes += static_cast<int64_t>(bytes.size());
      return;
    }
    const auto before = mapped(files_, tensor.name);
    const auto after = before.to(dtypes().at(tensor.dtype));
    if (finite && !parallel::is_finite(after)) {
      fail<UsageError>("checkpoint", "{} holds numbers that {} has not, up to {}; try bf16 or fp32",
                       tensor.name, options_.dtype, comm::item<double>(before.abs().max()));
    }
    out.write(place, after.const_data_ptr(), after.nbytes());
    written_.num_bytes += static_cast<int64_t>(after.nbytes());
  }

  std::string config(const fs::path& path) const {
    const auto text = read_regular_file(path);
    auto json = nlohmann::ordered_json::parse(text, nullptr, false);
    if (json.is_discarded()) parse_json(text, path.string());  // says what is wrong
    for (const char* key : {"dtype", "torch_dtype"}) {
      if (!options_.dtype.empty() && json.is_object() && json.contains(key)) {
        json[key] = kSpellings.at(options_.dtype).config;
      }
    }
    return json.dump(2) + "\n";
  }

  formats::SafetensorsFolder files_;
  std::map<std::string, uint64_t> sums_;
  const ExportOptions& options_;
  std::vector<std::string> kept_, not_finite_;
  std::optional<formats::SafetensorsShards> shards_;
  int64_t total_ = 0;
};

}  // namespace

Exported export_model(const fs::path& from, const fs::path& to, const ExportOptions& options,
                      const ProgressFn& progress) {
  if (!options.dtype.empty() && !kSpellings.contains(options.dtype)) {
    fail<UsageError>("checkpoint", "dtype {} is not known; expected fp32, bf16 or fp16",
                     options.dtype);
  }
  check_new_folder(from, to);
  Export work(from, options);
  AtomicFolder folder(to);
  work.write(folder.temporary(), progress);
  work.take_over(from, folder.temporary());
  work.warning();
  folder.commit();
  return std::move(work.written_);
}

}  // namespace convoy::checkpoint
