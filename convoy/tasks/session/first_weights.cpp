#include "convoy/tasks/session/first_weights.h"

#include <ATen/ATen.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <memory>
#include <set>
#include <tuple>

#include "convoy/base/error.h"
#include "convoy/base/files.h"
#include "convoy/base/text.h"
#include "convoy/checkpoint/dtypes.h"
#include "convoy/comm/to_host.h"
#include "convoy/formats/safetensors_folder.h"
#include "convoy/nn/declare.h"
#include "convoy/parallel/run/replica.h"

namespace convoy::tasks {

namespace fs = std::filesystem;

namespace {

/// Names of the tensors with a row for each id of a column.
std::set<std::string> tables_of(const models::SessionConfig& config) {
  std::set<std::string> out{"lm_head.weight", "generator_lm_head.weight"};
  for (const auto& feature : config.features) out.insert(models::embedding_name(feature.name));
  for (const auto& feature : config.item_tower) out.insert(models::item_tower_name(feature.name));
  return out;
}

/// Advice where a weight has another shape. `positions`: rows of this model's position table.
std::string advice(const std::string& name, const std::vector<int64_t>& there, int64_t positions,
                   const models::SessionConfig& config, bool shrinks) {
  const bool of_positions = name.ends_with("wpe.weight") || name.ends_with("pos_emb.weight") ||
                            name.ends_with("position_embeddings.weight");
  if (of_positions && !there.empty() && there[0] != positions) {
    return fmt::format("--max_length {}", there[0] - positions + config.max_length);
  }
  return shrinks ? "convoy data sessions --ids-from with the data of that run"
                 : "its run.toml as the configuration file, and no options of the model beside it";
}

/// Whether a weight may be left out when training goes on: it belongs to predictions beside the
/// next item, or to a second body that only trains the first.
bool may_be_left(const std::string& name) {
  for (const char* part :
       {"prediction_tasks.", "discriminator.", "discriminator_predictions.", "cls_token"}) {
    if (name.starts_with(part)) return true;
  }
  return false;
}

/// Throws where the model in `folder` reads other columns than this one.
void check_columns(const fs::path& folder, const models::SessionConfig& config) {
  const auto file = folder / "config.json";
  std::error_code error;
  if (!fs::exists(file, error)) return;
  models::SessionConfig before;
  before.read_json(parse_json(read_file(file), file.string()), file.string());
  const auto less = [](const models::SessionConfig& a, const models::SessionConfig& b) {
    std::vector<std::string> out;
    for (const auto& feature : a.features) {
      const bool has = std::ranges::find(b.features, feature.name, &models::SessionFeature::name) !=
                       b.features.end();
      if (!has) out.push_back(feature.name);
    }
    return out;
  };
  if (const auto gone = less(before, config); !gone.empty()) {
    fail<FileError>("tasks",
                    "the model in {} reads {}, which this data, or data.features, leaves out; "
                    "expected all columns of that model; try convoy data sessions with the "
                    "--features of that run's data",
                    folder.string(), join(gone));
  }
  for (const auto& feature : before.features) {
    const auto now =
        std::ranges::find(config.features, feature.name, &models::SessionFeature::name);
    if (now->categorical == feature.categorical) continue;
    const auto kind = [](bool is) { return is ? "categorical" : "continuous"; };
    fail<FileError>("tasks",
                    "the model in {} reads {} as {}, and this data has it as {}; expected one "
                    "kind; try convoy data sessions with the --features of that run's data",
                    folder.string(), feature.name, kind(feature.categorical),
                    kind(now->categorical));
  }
  if (const auto more = less(config, before); !more.empty()) {
    std::vector<std::string> names;
    for (const auto& feature : before.features) names.push_back(feature.name);
    fail<FileError>("tasks",
                    "the model in {} does not read {}, as this one does; expected the columns of "
                    "that model; try --data.features {}",
                    folder.string(), join(more), fmt::format("{}", fmt::join(names, ",")));
  }
}

void check_weights(const formats::SafetensorsFolder& file, const fs::path& folder,
                   const models::SessionConfig& config) {
  const auto tables = tables_of(config);
  std::set<std::string> own;
  for (const auto& param : nn::params_of(models::make_session_model(config))) {
    const auto& [name, shape] = std::tie(param->spec().name, param->spec().shape);
    own.insert(name);
    if (!file.tensors().contains(name)) {
      fail<FileError>("tasks",
                      "{} has no weight {}, as this model does; try its run.toml as the "
                      "configuration file",
                      folder.string(), name);
    }
    const auto& entry = file.entry(name);
    auto grown = entry.shape;
    if (tables.contains(name) && !grown.empty()) grown[0] = std::max(grown[0], shape[0]);
    if (checkpoint::is_real(entry.dtype) && grown == shape) continue;
    const bool shrinks =
        tables.contains(name) && grown.size() == shape.size() && grown[0] > shape[0];
    fail<FileError>("tasks", "{} has {} of {} by {}; expected {}; try {}", folder.string(), name,
                    entry.dtype, fmt::format("{}", fmt::join(entry.shape, " x ")),
                    fmt::format("{}", fmt::join(shape, " x ")),
                    advice(name, entry.shape, shape.empty() ? 0 : shape[0], config, shrinks));
  }
  std::vector<std::string> left;
  for (const auto& [name, in] : file.tensors()) {
    if (own.contains(name) || may_be_left(name)) continue;
    if (checkpoint::is_real(file.entry(name).dtype)) left.push_back(name);
  }
  if (left.empty()) return;
  fail<FileError>("tasks",
                  "{} has the weight {}{}, which this model does not have; expected a model that "
                  "takes all of them; try its run.toml as the configuration file, and no options "
                  "of the model beside it",
                  folder.string(), left.front(),
                  left.size() > 1 ? fmt::format(" and {} more", left.size() - 1) : "");
}

}  // namespace

parallel::State draw_all(parallel::Replica& model) {
  const auto state = model.weights();
  std::set<std::string> names;
  for (const auto& tensor : state) names.insert(tensor.name);
  model.draw(names);
  return state;
}

void fill_rows(const parallel::State& state, const std::string& name, const at::Tensor& values) {
  const auto tensor = std::ranges::find(state, name, &parallel::StateTensor::name);
  if (tensor == state.end()) return;  // of another stage
  const auto from = values.reshape({-1});
  for (const auto& piece : tensor->pieces) {
    const int64_t left = from.numel() - piece.begin;
    if (piece.stride == 0) {
      const int64_t count = std::min(piece.length(), left);
      if (count <= 0) continue;
      comm::upload_into(piece.values.narrow(0, 0, count), from.narrow(0, piece.begin, count));
      continue;
    }
    if (left < piece.length()) continue;
    const int64_t rows = std::min(piece.rows(), (left - piece.length()) / piece.stride + 1);
    comm::upload_into(piece.values.narrow(0, 0, rows),
                      from.as_strided({rows, piece.length()}, {piece.stride, 1}, piece.begin));
  }
}

models::SessionConfig ids_in(const fs::path& folder, models::SessionConfig config) {
  const formats::SafetensorsFolder file(folder);
  for (auto& feature : config.features) {
    if (!feature.categorical) continue;
    const auto name = models::embedding_name(feature.name);
    const bool has = file.tensors().contains(name) && !file.entry(name).shape.empty();
    feature.cardinality = has ? file.entry(name).shape[0] : 0;
    if (has || feature.name != config.item_feature) continue;
    fail<FileError>("tasks",
                    "{} has no weight {}, as this model does; try its run.toml as the "
                    "configuration file",
                    folder.string(), name);
  }
  return config;
}

train::Trainer::Fill fill_from(const fs::path& folder, const models::SessionConfig& config,
                               const BesideData& data, const PretrainedVectors& vectors) {
  const auto file = std::make_shared<formats::SafetensorsFolder>(folder);
  check_columns(folder, config);
  check_weights(*file, folder, config);
  check_same_ids(folder, config, data);
  return [file, vectors, frozen = config.frozen_embeddings](parallel::Replica& model) {
    const auto state = draw_all(model);
    const auto fill_vectors = [&](bool are_frozen) {
      for (const auto& [column, values] : vectors) {
        if (frozen.contains(column) != are_frozen) continue;
        fill_rows(state, models::embedding_name(column), values);
      }
    };
    fill_vectors(/*are_frozen=*/false);  // of new ids
    for (const auto& [name, in] : file->tensors()) {
      const auto& entry = file->entry(name);
      const auto known = checkpoint::dtypes().find(entry.dtype);
      if (known == checkpoint::dtypes().end()) continue;  // not of the model: those were checked
      const auto dtype = known->second;
      auto* data = const_cast<std::byte*>(file->bytes(name).data());
      fill_rows(state, name, at::from_blob(data, entry.shape, dtype));
    }
    fill_vectors(/*are_frozen=*/true);
  };
}

}  // namespace convoy::tasks
