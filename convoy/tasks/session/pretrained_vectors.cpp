#include "convoy/tasks/session/pretrained_vectors.h"

#include <ATen/ATen.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <unordered_map>

#include "convoy/base/error.h"
#include "convoy/base/text.h"
#include "convoy/checkpoint/dtypes.h"
#include "convoy/comm/to_host.h"
#include "convoy/formats/npy.h"
#include "convoy/formats/safetensors.h"
#include "convoy/prepare/items.h"
#include "convoy/prepare/vectors.h"
#include "convoy/tasks/session/first_weights.h"
#include "convoy/tasks/session/run.h"

// Shapes: n rows of a file, V ids of a column with padding, W numbers of a vector.
namespace convoy::tasks {

namespace fs = std::filesystem;

namespace {

constexpr const char* kOption = "model.pretrained_embeddings";
constexpr const char* kRawIds = "ids";

struct Matrix {
  std::vector<std::string> raw_ids;  ///< of its rows; none: row i is of id i
  at::Tensor values;                 ///< [n, W] fp32
};

at::Tensor to_floats(const void* data, const std::string& dtype, const std::vector<int64_t>& shape,
                     const std::string& what) {
  if (shape.size() != 2 || !checkpoint::is_real(dtype)) {
    fail<FileError>("data", "{} is of {} by {}; expected a matrix of fractions, a row for each id",
                    what, dtype,
                    shape.empty() ? "nothing" : fmt::format("{}", fmt::join(shape, " by ")));
  }
  const auto type = checkpoint::dtypes().at(dtype);
  return at::from_blob(const_cast<void*>(data), shape, type).to(at::kFloat, false, /*copy=*/true);
}

Matrix of_safetensors(const fs::path& path) {
  const formats::SafetensorsFile file(path);
  std::vector<std::string> names;
  for (const auto& [name, entry] : file.entries()) {
    if (name != kRawIds) names.push_back(name);
  }
  if (names.size() != 1) {
    fail<FileError>(
        "data",
        "{} has the tensors {}; expected one matrix, and '{}' where its rows are not in "
        "the order of the data's ids",
        path.string(), join(names), kRawIds);
  }
  const auto& entry = file.entry(names[0]);
  Matrix out;
  out.values = to_floats(file.bytes(names[0]).data(), entry.dtype, entry.shape,
                         fmt::format("'{}' in {}", names[0], path.string()));
  if (!file.entries().contains(kRawIds)) return out;
  const auto& ids = file.entry(kRawIds);
  if (ids.dtype != "I64" || ids.shape != std::vector<int64_t>{out.values.size(0)}) {
    fail<FileError>("data", "'{}' in {} is of {} by {}; expected {} raw ids of I64", kRawIds,
                    path.string(), ids.dtype, fmt::join(ids.shape, " by "), out.values.size(0));
  }
  std::vector<int64_t> numbers(static_cast<size_t>(out.values.size(0)));
  file.read(kRawIds, 0, numbers.size() * sizeof(int64_t), numbers.data());
  for (const int64_t number : numbers) out.raw_ids.push_back(std::to_string(number));
  return out;
}

Matrix of_parquet(const fs::path& path) {
  auto vectors = prepare::read_vectors(path);
  const auto n = std::ssize(vectors.raw_ids);
  return {std::move(vectors.raw_ids), at::tensor(vectors.values).view({n, vectors.width})};
}

Matrix read_matrix(const fs::path& path) {
  const auto kind = path.extension();
  if (kind == ".parquet") return of_parquet(path);
  if (kind == ".safetensors") return of_safetensors(path);
  if (kind != ".npy") {
    fail<UsageError>("config",
                     "{} has {}; expected a file that ends in .parquet, .npy or "
                     ".safetensors",
                     kOption, path.string());
  }
  const auto array = formats::read_npy(path);
  return {{}, to_floats(array.bytes.data(), array.dtype, array.shape, path.string())};
}

/// Names of the ids of a column.
prepare::ItemNames names_of(const DataArguments& data, const models::SessionConfig& model,
                            const std::string& column) {
  if (column == model.item_feature) return prepare::ItemNames::load(data.items_file());
  return prepare::ItemNames::load(data.beside_schema(names_file(column)));
}

/// Returns the rows [V, W] in the order of the column's ids.
at::Tensor by_id(const Matrix& matrix, const models::SessionFeature& feature,
                 const prepare::ItemNames& names, const std::string& file) {
  const int64_t V = feature.cardinality, n = matrix.values.size(0);
  if (matrix.raw_ids.empty()) {
    if (n == V) return matrix.values;
    fail<FileError>("data",
                    "{} has {} for '{}'; expected {}, one for each of its ids and for padding, "
                    "which is row 0; try a Parquet file with raw ids",
                    file, plural(n, "row"), feature.name, V);
  }
  std::unordered_map<std::string, int64_t> places;
  for (int64_t row = 0; row < n; ++row) {
    const auto& raw = matrix.raw_ids[static_cast<size_t>(row)];
    if (places.emplace(raw, row).second) continue;
    fail<FileError>("data", "{} has two vectors of '{}'; expected one of each", file, raw);
  }
  std::vector<int64_t> rows;
  std::vector<std::string> missing;
  for (int64_t id = 1; id < V; ++id) {
    const auto place = places.find(names.raw_id(id));
    if (place == places.end()) missing.push_back(names.raw_id(id));
    rows.push_back(place == places.end() ? 0 : place->second);
  }
  if (!missing.empty()) {
    fail<FileError>("data",
                    "{} has no vector of {} of the {} values of '{}', such as '{}'; "
                    "expected one of each; try to add them, or {} without '{}'",
                    file, missing.size(), V - 1, feature.name, missing.front(), kOption,
                    feature.name);
  }
  auto out = at::zeros({V, matrix.values.size(1)});
  if (V > 1) {
    out.narrow(0, 1, V - 1).copy_(matrix.values.index_select(0, at::tensor(rows)));  // on the host
  }
  return out;
}

/// Sets the embedding's width, or throws where the model has another.
void take_width(models::SessionConfig& model, const models::SessionFeature& feature, int64_t width,
                const std::string& file) {
  const bool item = feature.name == model.item_feature;
  const bool single = model.embedding_dims.contains(feature.name);
  const bool said = single || (item ? model.item_embedding_dim : model.embedding_dim) > 0;
  if (!said) model.embedding_dims[feature.name] = width;
  if (model.dim_of(feature) == width) return;
  const std::string option = single ? "embedding_dims"
                             : item ? "item_embedding_dim"
                                    : "embedding_dim";
  fail<UsageError>(
      "config",
      "{} has vectors of {} for '{}', whose embedding is {} wide by model.{}; expected "
      "one width; try without model.{}",
      file, plural(width, "number"), feature.name, model.dim_of(feature), option, option);
}

}  // namespace

PretrainedVectors take_pretrained(SessionArguments& arguments) {
  auto& model = arguments.model;
  PretrainedVectors out;
  for (auto& given : arguments.pretrained_embeddings) {
    const auto equals = given.find('=');
    if (equals == std::string::npos || equals == 0 || equals + 1 == given.size()) {
      fail<UsageError>("config", "{} has '{}'; expected COLUMN=FILE", kOption, given);
    }
    const auto name = given.substr(0, equals);
    const auto file = fs::absolute(given.substr(equals + 1)).lexically_normal();
    std::vector<std::string> known;
    for (const auto& feature : model.features) {
      if (feature.categorical) known.push_back(feature.name);
    }
    if (std::ranges::find(known, name) == known.end()) {
      fail<UsageError>("config",
                       "{} names '{}', which is no categorical feature of the model; expected "
                       "some of {}{}",
                       kOption, name, join(known), did_you_mean(name, known));
    }
    if (out.contains(name)) {
      fail<UsageError>("config", "{} names '{}' twice; expected one file for it", kOption, name);
    }
    given = fmt::format("{}={}", name, file.string());  // a run keeps it for use from anywhere
    const auto& feature = *std::ranges::find(model.features, name, &models::SessionFeature::name);
    const auto matrix = read_matrix(file);
    if (!comm::item<bool>(matrix.values.isfinite().all())) {
      fail<FileError>("data", "{} holds numbers that are not finite", file.string());
    }
    take_width(model, feature, matrix.values.size(1), file.string());
    out[name] = by_id(matrix, feature, names_of(arguments.data, model, name), file.string());
    if (!arguments.pretrained_trainable) model.frozen_embeddings.insert(name);
  }
  if (!out.empty()) model.check();  // with their widths
  return out;
}

train::Trainer::Fill fill_with(PretrainedVectors vectors) {
  return [vectors = std::move(vectors)](parallel::Replica& model) {
    const auto state = draw_all(model);
    for (const auto& [column, values] : vectors) {
      fill_rows(state, models::embedding_name(column), values);
    }
  };
}

}  // namespace convoy::tasks
