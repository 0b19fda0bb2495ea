#include "convoy/checkpoint/weights.h"

#include <ATen/Functions.h>
#include <fmt/ranges.h>

#include <functional>
#include <set>

#include "convoy/base/error.h"
#include "convoy/formats/safetensors.h"

namespace convoy::checkpoint {

namespace {

using parallel::Arena;
using parallel::Slot;

/// A named place in memory where a tensor of a file belongs.
struct Place {
  std::string name;
  at::Tensor tensor;
};

std::vector<Place> weight_places(Arena& arena) {
  std::vector<Place> places;
  for (const auto& slot : arena.all_slots()) {
    auto& flat = slot.param->spec().trainable ? arena.masters() : arena.frozen_values();
    places.push_back({slot.param->spec().name, Arena::view(flat, slot)});
  }
  return places;
}

std::vector<Place> moment_places(Arena& arena) {
  std::vector<Place> places;
  for (const auto& unit : arena.units()) {
    for (const auto& slot : unit.slots) {
      const auto& name = slot.param->spec().name;
      places.push_back({"exp_avg." + name, Arena::view(arena.first_moments(), slot)});
      places.push_back({"exp_avg_sq." + name, Arena::view(arena.second_moments(), slot)});
    }
  }
  return places;
}

void write(const std::filesystem::path& path, const std::vector<Place>& places) {
  std::vector<at::Tensor> host;
  std::vector<formats::TensorView> views;
  for (const auto& place : places) {
    host.push_back(place.tensor.to(at::kCPU).contiguous());
    const auto& tensor = host.back();
    views.push_back({place.name, "F32", tensor.sizes().vec(), tensor.data_ptr(), tensor.nbytes()});
  }
  formats::write_safetensors(path, views);
}

at::ScalarType dtype_of(const std::string& name, const std::filesystem::path& path) {
  if (name == "F32") return at::kFloat;
  if (name == "F16") return at::kHalf;
  if (name == "BF16") return at::kBFloat16;
  if (name == "F64") return at::kDouble;
  fail<FileError>("checkpoint", "{} holds weights of dtype {}; expected F32, F16, BF16 or F64",
                  path.string(), name);
}

void read(const std::filesystem::path& path, const std::vector<Place>& places) {
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

void save_weights(const std::filesystem::path& path, Arena& arena) {
  write(path, weight_places(arena));
}

void load_weights(const std::filesystem::path& path, Arena& arena) {
  read(path, weight_places(arena));
  arena.publish_weights();
}

void save_optimizer(const std::filesystem::path& path, Arena& arena) {
  write(path, moment_places(arena));
}

void load_optimizer(const std::filesystem::path& path, Arena& arena) {
  read(path, moment_places(arena));
}

}  // namespace convoy::checkpoint
