#include "convoy/checkpoint/weights.h"

#include <ATen/Functions.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "convoy/base/error.h"
#include "convoy/base/text.h"
#include "convoy/formats/safetensors_folder.h"

namespace convoy::checkpoint {

namespace {

using parallel::Arena;
using parallel::Replica;

/// Safetensors' names of the dtypes that a checkpoint may hold.
const std::map<std::string, at::ScalarType> kDtypes{
    {"F32", at::kFloat}, {"F16", at::kHalf}, {"BF16", at::kBFloat16}, {"F64", at::kDouble},
    {"I64", at::kLong},  {"I32", at::kInt},  {"I16", at::kShort},     {"I8", at::kChar},
    {"U8", at::kByte},   {"BOOL", at::kBool}};

/// Whether tensors of that dtype may be read into `home`: real numbers into real ones (what they
/// then hold is looked at), other numbers only into their own.
bool fits(const std::string& dtype, at::ScalarType home) {
  const auto found = kDtypes.find(dtype);
  if (found == kDtypes.end() || !c10::isFloatingType(home)) {
    return found != kDtypes.end() && found->second == home;
  }
  return c10::isFloatingType(found->second);
}

/// Where the tensors of a file belong.
using Places = std::vector<nn::NamedTensor>;

Places parameter_places(Replica& model) {
  auto& arena = model.arena();
  Places places;
  for (const auto& slot : arena.all_slots()) {
    auto& flat = slot.param->spec().trainable ? arena.masters() : arena.frozen_values();
    places.push_back({slot.param->spec().name, Arena::view(flat, slot)});
  }
  return places;
}

Places weight_places(Replica& model) {
  Places places = model.buffers();
  for (auto& place : parameter_places(model)) places.push_back(place);
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

/// Calls `write` with views of the places' values on the host.
template <class Write>
void with_views(const Places& places, const Write& write) {
  std::vector<at::Tensor> host;
  std::vector<formats::TensorView> views;
  for (const auto& place : places) {
    host.push_back(place.tensor.to(at::kCPU).contiguous());
    const auto& tensor = host.back();
    views.push_back({place.name, name_of(tensor.scalar_type(), place.name), tensor.sizes().vec(),
                     tensor.data_ptr(), tensor.nbytes()});
  }
  write(views);
}

/// A tensor of a file, in the mapped memory.
at::Tensor mapped(const formats::SafetensorsFolder& file, const std::string& name) {
  const auto& entry = file.entry(name);
  return at::from_blob(const_cast<std::byte*>(file.bytes(name).data()), entry.shape,
                       kDtypes.at(entry.dtype));
}

[[noreturn]] void refuse(const std::filesystem::path& path, const char* what,
                         std::vector<std::string> wrong) {
  constexpr size_t kShown = 30;
  const size_t more = wrong.size() > kShown ? wrong.size() - kShown : 0;
  wrong.resize(wrong.size() - more);
  fail<FileError>("checkpoint", "{} {}{}{}", path.string(), what, fmt::join(wrong, "; "),
                  more > 0 ? fmt::format("; and {} more", more) : "");
}

/// The largest magnitude says it without an overflow of its own.
bool is_finite(const at::Tensor& values) {
  return values.numel() == 0 ||
         std::isfinite(at::linalg_vector_norm(values, HUGE_VAL).item<double>());
}

/// Finds each place's tensor in a file and everything that does not fit.
class Matching {
 public:
  Matching(const formats::SafetensorsFolder& file, const Places& places,
           const models::WeightLayout& layout)
      : file_(file), layout_(layout) {
    for (const auto& place : places) places_.emplace(place.name, place.tensor);
    for (const auto& [name, source] : file.tensors()) take(name);
    match_head();
    for (const auto& [name, tensor] : places_) check(name, tensor);
    complain();
  }

  void copy() const {
    for (const auto& [name, source] : source_of_) {
      auto home = places_.at(name);
      home.copy_(mapped(file_, source));
    }
  }

  LoadReport report;

 private:
  void take(const std::string& name) {
    const auto home = places_.contains(name) ? name : layout_.prefix + name;
    if (places_.contains(home)) {
      auto [first, fresh] = source_of_.emplace(home, name);
      if (!fresh) wrong_.push_back(fmt::format("{} is there as {} too", home, first->second));
    } else if (is_buffer(name)) {
      report.skipped.push_back(name);
    } else if (name != layout_.head) {
      left_over_.push_back(name);
    }
  }

  bool is_buffer(const std::string& name) const {
    return std::any_of(layout_.buffers.begin(), layout_.buffers.end(),
                       [&](const auto& end) { return name.ends_with(end); });
  }

  /// A head that is tied has no place of its own; one that is not may be missing.
  void match_head() {
    const auto& head = layout_.head;
    const bool there = !head.empty() && file_.tensors().contains(head);
    if (!there) {
      if (places_.contains(head)) report.drawn.push_back(head);
      return;
    }
    if (places_.contains(head)) return;
    const auto [table, fresh] = source_of_.emplace(layout_.tied_to, head);
    if (fresh || same(head, table->second)) return;
    wrong_.push_back(
        fmt::format("{} differs from {}, which it is tied to (try "
                    "tie_word_embeddings = false)",
                    head, table->second));
  }

  bool same(const std::string& a, const std::string& b) const {
    if (!readable(a) || !readable(b) || file_.entry(a).shape != file_.entry(b).shape) return false;
    return at::equal(mapped(file_, a).to(at::kFloat), mapped(file_, b).to(at::kFloat));
  }

  bool readable(const std::string& name) const { return kDtypes.contains(file_.entry(name).dtype); }

  void check(const std::string& name, const at::Tensor& tensor) {
    auto found = source_of_.find(name);
    if (found == source_of_.end()) {
      if (report.drawn.empty() || report.drawn[0] != name) {
        wrong_.push_back(fmt::format("{} is missing{}", name, did_you_mean(name, left_over_)));
      }
      return;
    }
    const auto& entry = file_.entry(found->second);
    if (!fits(entry.dtype, tensor.scalar_type())) {
      wrong_.push_back(
          fmt::format("{} is {}; expected {}", found->second, entry.dtype,
                      tensor.is_floating_point() ? "F32, F16 or BF16" : "whole numbers"));
    } else if (entry.shape != tensor.sizes().vec()) {
      wrong_.push_back(fmt::format("{} is [{}] instead of [{}]", found->second,
                                   fmt::join(entry.shape, ", "), fmt::join(tensor.sizes(), ", ")));
    }
  }

  void complain() {
    std::vector<std::string> names;
    for (const auto& [name, tensor] : places_) names.push_back(name);
    for (const auto& name : left_over_) {
      wrong_.push_back(fmt::format("{} is not in the model{}", name, did_you_mean(name, names)));
    }
    if (wrong_.empty()) return;
    refuse(file_.path(), "does not fit the model: ", wrong_);
  }

  const formats::SafetensorsFolder& file_;
  const models::WeightLayout& layout_;
  std::map<std::string, at::Tensor> places_;
  std::map<std::string, std::string> source_of_;  // [place] name in the file
  std::vector<std::string> left_over_, wrong_;
};

LoadReport read(const std::filesystem::path& path, const Places& places,
                const models::WeightLayout& layout) {
  const formats::SafetensorsFolder file(path);
  Matching matching(file, places, layout);
  at::NoGradGuard no_grad;
  matching.copy();
  return matching.report;
}

}  // namespace

void save_weights(const std::filesystem::path& folder, Replica& model, int64_t max_shard_bytes) {
  with_views(weight_places(model), [&](const auto& views) {
    formats::write_safetensors_folder(folder, views, static_cast<size_t>(max_shard_bytes));
  });
}

LoadReport load_weights(const std::filesystem::path& path, Replica& model,
                        const models::WeightLayout& layout) {
  auto report = read(path, weight_places(model), layout);
  std::vector<std::string> wrong;  // buffers may hold infinities, as masks do
  for (const auto& [name, tensor] : parameter_places(model)) {
    const bool drawn = std::count(report.drawn.begin(), report.drawn.end(), name) > 0;
    if (!drawn && !is_finite(tensor)) wrong.push_back(name);
  }
  if (!wrong.empty()) refuse(path, "holds numbers that are not finite: ", wrong);
  model.draw({report.drawn.begin(), report.drawn.end()});
  return report;
}

void save_optimizer(const std::filesystem::path& path, Replica& model) {
  with_views(moment_places(model),
             [&](const auto& views) { formats::write_safetensors(path, views); });
}

void load_optimizer(const std::filesystem::path& path, Replica& model) {
  read(path, moment_places(model), {});
}

}  // namespace convoy::checkpoint
