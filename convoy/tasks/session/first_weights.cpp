#include "convoy/tasks/session/first_weights.h"

#include <ATen/ATen.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <memory>
#include <set>
#include <tuple>

#include "convoy/base/error.h"
#include "convoy/base/text.h"
#include "convoy/checkpoint/dtypes.h"
#include "convoy/comm/to_host.h"
#include "convoy/formats/safetensors_folder.h"
#include "convoy/nn/declare.h"
#include "convoy/parallel/run/replica.h"

namespace convoy::tasks {

namespace fs = std::filesystem;

namespace {

/// The tensors with a row for each id of a column.
std::set<std::string> tables_of(const models::SessionConfig& config) {
  std::set<std::string> out{"lm_head.weight", "generator_lm_head.weight"};
  for (const auto& feature : config.features) out.insert(models::embedding_name(feature.name));
  return out;
}

void check_weights(const formats::SafetensorsFolder& file, const fs::path& folder,
                   const models::SessionConfig& config) {
  const auto tables = tables_of(config);
  for (const auto& param : nn::params_of(models::make_session_model(config))) {
    const auto& [name, shape] = std::tie(param->spec().name, param->spec().shape);
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
    const bool shrinks = grown.size() == shape.size() && grown[0] > shape[0];
    fail<FileError>("tasks", "{} has {} of {} by {}; expected {}; try {}", folder.string(), name,
                    entry.dtype, fmt::format("{}", fmt::join(entry.shape, " x ")),
                    fmt::format("{}", fmt::join(shape, " x ")),
                    shrinks ? "convoy data sessions --ids-from with the data of that run"
                            : "its run.toml as the configuration file");
  }
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
