#include "convoy/checkpoint/contents.h"

#include <algorithm>
#include <type_traits>

#include "convoy/base/error.h"
#include "convoy/base/files.h"
#include "convoy/base/json_number.h"
#include "convoy/checkpoint/dtypes.h"
#include "convoy/checkpoint/folder.h"
#include "convoy/checkpoint/lineage.h"
#include "convoy/checkpoint/manifest.h"
#include "convoy/formats/safetensors_folder.h"

namespace convoy::checkpoint {
namespace fs = std::filesystem;

namespace {

Json small_file(const fs::path& path) {
  std::error_code error;
  return fs::exists(path, error) ? parse_json(read_regular_file(path), path.string())
                                 : Json::object();
}

template <class Value>
std::optional<Value> number(const Json& json, const char* key) {
  if (!json.is_object() || !json.contains(key)) return std::nullopt;
  if constexpr (std::is_integral_v<Value>) {
    return whole_number<Value>(json[key]);
  } else {
    return finite_number(json[key]);
  }
}

void add_tensors(const formats::SafetensorsFile& file, Contents& out) {
  for (const auto& [name, entry] : file.entries()) {
    out.tensors.push_back(
        {name, file.path().filename().string(), entry.dtype, entry.shape, entry.end - entry.begin});
  }
}

std::string writer_of(const fs::path& folder, bool has_manifest, const Json& state) {
  std::error_code error;
  if (has_manifest || state.contains("data_order") || fs::exists(folder / "run.toml", error)) {
    return "convoy";
  }
  const auto config = small_file(folder / kConfig);
  const auto version = config.is_object() ? config.find("transformers_version") : config.end();
  if (version == config.end() || !version->is_string()) return "";
  return "transformers " + version->get<std::string>();
}

}  // namespace

bool holds_weights(const fs::path& folder) {
  std::error_code error;
  return formats::has_weights(folder) || fs::exists(folder / Manifest::kName, error);
}

fs::path find_weights(const fs::path& typed) {
  std::error_code error;
  if (!fs::is_directory(typed, error)) {
    fail<FileError>("checkpoint", "'{}' is no folder; expected a run's, a checkpoint or a model",
                    typed.string());
  }
  if (holds_weights(typed)) return typed;
  if (const auto latest = latest_checkpoint(typed)) return *latest;
  fail<FileError>("checkpoint",
                  "{} holds no weights and no checkpoint; expected {}, {} or folders "
                  "checkpoint-<step>",
                  typed.string(), formats::kWeightsFile, formats::kWeightsIndex);
}

std::string tell_newer(const fs::path& run) try {
  const auto latest = latest_checkpoint(run);
  if (!latest) return "";
  const auto step = number<int64_t>(small_file(run / kState), "global_step");
  if (!step) return "";
  const auto newest = step_of(*latest);
  const auto own = lineage_of(run);
  if (own && !is_on(Line(run).lineage(), *step, *own)) {
    return fmt::format(
        "warning: the model of {} is of step {}, which the run left behind when it went back; "
        "what it goes on from now is of step {}; for that one try {}",
        run.string(), *step, newest, latest->string());
  }
  if (newest <= *step) return "";
  return fmt::format(
      "warning: the model of {} is of step {}, and a checkpoint there of step {}; for that one try "
      "{}",
      run.string(), *step, newest, latest->string());
} catch (const FileError&) {  // who needs that file tells of it
  return "";
}

std::vector<std::string> tensor_files(const fs::path& folder) {
  std::vector<std::string> out;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    const auto name = entry.path().filename().string();
    if (name.ends_with(".safetensors") && !name.starts_with(".")) out.push_back(name);
  }
  std::sort(out.begin(), out.end());
  return out;
}

Contents look_at(const fs::path& folder) {
  Contents out;
  out.folder = folder;
  std::error_code error;
  out.has_manifest = fs::exists(folder / Manifest::kName, error);
  const auto state = small_file(folder / kState);
  out.step = number<int64_t>(state, "global_step");
  out.epoch = number<double>(state, "epoch");
  const bool has_moments = fs::exists(formats::file_or_index(folder / kOptimizer), error);
  out.kind = !out.step ? "model" : has_moments ? "checkpoint" : "model of a run";
  out.written_by = writer_of(folder, out.has_manifest, state);
  const formats::SafetensorsFolder weights(folder);
  for (const auto& file : weights.files()) {
    out.weights.push_back(file.path().filename().string());
    add_tensors(file, out);
  }
  for (const auto& tensor : out.tensors) {
    if (!is_real(tensor.dtype) && !tensor.dtype.starts_with("F8")) continue;
    int64_t elements = 1;
    for (const int64_t extent : tensor.shape) elements *= extent;
    out.num_parameters += elements;
  }
  for (const auto& name : tensor_files(folder)) {
    if (std::find(out.weights.begin(), out.weights.end(), name) != out.weights.end()) continue;
    add_tensors(formats::SafetensorsFile(folder / name), out);
  }
  return out;
}

Json to_json(const Contents& contents) {
  Json tensors = Json::array();
  for (const auto& tensor : contents.tensors) {
    tensors.push_back({{"name", tensor.name},
                       {"file", tensor.file},
                       {"dtype", tensor.dtype},
                       {"shape", tensor.shape},
                       {"bytes", tensor.bytes}});
  }
  return {{"folder", contents.folder.string()},
          {"kind", contents.kind},
          {"written_by", contents.written_by},
          {"step", contents.step ? Json(*contents.step) : Json()},
          {"epoch", contents.epoch ? Json(*contents.epoch) : Json()},
          {"has_manifest", contents.has_manifest},
          {"num_parameters", contents.num_parameters},
          {"weights", contents.weights},
          {"tensors", tensors}};
}

}  // namespace convoy::checkpoint
