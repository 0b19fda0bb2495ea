#include "convoy/checkpoint/weights.h"

#include <ATen/Functions.h>
#include <fmt/ranges.h>

#include <functional>
#include <map>
#include <set>

#include "convoy/base/error.h"
#include "convoy/formats/safetensors.h"

namespace convoy::checkpoint {

namespace {

using parallel::Arena;
using parallel::Replica;

/// Safetensors' names of the dtypes that a checkpoint may hold.
const std::map<std::string, at::ScalarType> kDtypes{
    {"F32", at::kFloat}, {"F16", at::kHalf}, {"BF16", at::kBFloat16}, {"F64", at::kDouble},
    {"I64", at::kLong},  {"I32", at::kInt},  {"I16", at::kShort},     {"I8", at::kChar},
    {"U8", at::kByte},   {"BOOL", at::kBool}};

/// Where the tensors of a file belong.
using Places = std::vector<nn::NamedTensor>;

Places weight_places(Replica& model) {
  auto& arena = model.arena();
  Places places = model.buffers();
  for (const auto& slot : arena.all_slots()) {
    auto& flat = slot.param->spec().trainable ? arena.masters() : arena.frozen_values();
    places.push_back({slot.param->spec().name, Arena::view(flat, slot)});
  }
  return places;
}

Places moment_places(Replica& model) {
  auto& arena = model.arena();
  Places places;
  for (const auto& unit : arena.units()) {
    for (const auto& slot : unit.slots) {
      const auto& name = slot.param->spec().name;
      places.push_back({"exp_avg." + name, Arena::view(arena.first_moments(), slot)});
      places.push_back({"exp_avg_sq." + name, Arena::view(arena.second_moments(), slot)});
    }
  }
  return places;
}

std::string name_of(at::ScalarType dtype, const std::string& tensor) {
  for (const auto& [name, known] : kDtypes) {
    if (known == dtype) return name;
  }
  fail<UsageError>("checkpoint", "{} is {}; a checkpoint holds real numbers and whole numbers only",
                   tensor, c10::toString(dtype));
}

void write(const std::filesystem::path& path, const Places& places) {
  std::vector<at::Tensor> host;
  std::vector<formats::TensorView> views;
  for (const auto& place : places) {
    host.push_back(place.tensor.to(at::kCPU).contiguous());
    const auto& tensor = host.back();
    views.push_back({place.name, name_of(tensor.scalar_type(), place.name), tensor.sizes().vec(),
                     tensor.data_ptr(), tensor.nbytes()});
  }
  formats::write_safetensors(path, views);
}

at::ScalarType dtype_of(const std::string& name, const std::filesystem::path& path) {
  auto found = kDtypes.find(name);
  if (found != kDtypes.end()) return found->second;
  fail<FileError>("checkpoint", "{} holds tensors of dtype {}; expected real or whole numbers",
                  path.string(), name);
}

void read(const std::filesystem::path& path, const Places& places) {
  formats::SafetensorsFile file(path);
  std::vector<std::string> wrong;
  std::set<std::string> known;
  for (const auto& place : places) {
    known.insert(place.name);
    auto found = file.entries().find(place.name);
    if (found == file.entries().end()) {
      wrong.push_back(fmt::format("{} is missing", place.name));
    } else if (found->second.shape != place.tensor.sizes().vec()) {
      wrong.push_back(fmt::format("{} is [{}] instead of [{}]", place.name,
                                  fmt::join(found->second.shape, ", "),
                                  fmt::join(place.tensor.sizes(), ", ")));
    }
  }
  for (const auto& [name, entry] : file.entries()) {
    if (known.count(name) == 0) wrong.push_back(fmt::format("{} is not in the model", name));
  }
  if (!wrong.empty()) {
    const size_t shown = std::min<size_t>(wrong.size(), 5);
    fail<FileError>(
        "checkpoint", "{} does not fit the model: {}{}", path.string(),
        fmt::join(wrong.begin(), wrong.begin() + static_cast<std::ptrdiff_t>(shown), "; "),
        shown < wrong.size() ? fmt::format("; and {} more", wrong.size() - shown) : "");
  }
  at::NoGradGuard no_grad;
  for (const auto& place : places) {
    auto dtype = dtype_of(file.entry(place.name).dtype, path);
    auto bytes = file.bytes(place.name);
    auto view = at::from_blob(const_cast<std::byte*>(bytes.data()), place.tensor.sizes(), dtype);
    auto home = place.tensor;
    home.copy_(view);
  }
}

}  // namespace

void save_weights(const std::filesystem::path& path, Replica& model) {
  write(path, weight_places(model));
}

void load_weights(const std::filesystem::path& path, Replica& model) {
  read(path, weight_places(model));
  model.arena().publish_weights();
}

void save_optimizer(const std::filesystem::path& path, Replica& model) {
  write(path, moment_places(model));
}

void load_optimizer(const std::filesystem::path& path, Replica& model) {
  read(path, moment_places(model));
}

}  // namespace convoy::checkpoint
