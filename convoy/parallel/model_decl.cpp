#include "convoy/parallel/model_decl.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <utility>

#include "convoy/base/error.h"

namespace convoy::parallel {

namespace {

/// Last block that reads each parameter, and whether several do.
struct Readers {
  std::vector<size_t> last;
  std::vector<bool> several;
};

Readers readers_of(const ModelDecl& model) {
  constexpr auto kNone = static_cast<size_t>(-1);
  Readers out{std::vector<size_t>(model.params.size(), kNone),
              std::vector<bool>(model.params.size(), false)};
  for (size_t b = 0; b < model.blocks.size(); ++b) {
    for (const int64_t index : model.blocks[b].params) {
      const auto p = static_cast<size_t>(index);
      if (out.last[p] != kNone && out.last[p] != b) out.several[p] = true;
      out.last[p] = b;
    }
  }
  return out;
}

void check_names(const ModelDecl& model) {
  std::set<std::string> names;
  for (const auto& param : model.params) {
    if (names.insert(param.name).second) continue;
    fail<UsageError>("parallel",
                     "two parameters are named '{}'; expected unique names; of several modules try "
                     "submodules of one, whose names they begin with",
                     param.name);
  }
}

}  // namespace

bool ModelDecl::has_modules() const {
  return std::any_of(params.begin(), params.end(), [](const auto& p) { return p.of_module; });
}

int64_t common_experts(const ModelDecl& model) {
  int64_t out = 0;
  for (const auto& param : model.params) out = std::gcd(out, param.cut.experts.of);
  return out;
}

Units units_of(const ModelDecl& model, bool experts_apart) {
  check_names(model);
  const auto readers = readers_of(model);
  Units out;
  out.table.units_of_block.resize(model.blocks.size());
  std::vector<int64_t> unit_of(model.params.size(), -1);
  for (size_t b = 0; b < model.blocks.size(); ++b) {
    std::map<std::pair<bool, bool>, int64_t> own;  // trained or not, of experts apart or not
    for (const int64_t index : model.blocks[b].params) {
      const auto p = static_cast<size_t>(index);
      const auto& param = model.params[p];
      const bool tied = readers.several[p] || param.row_reads;  // a unit of its own
      const bool apart = experts_apart && param.cut.experts.of > 0;
      const std::pair kind(param.trained, apart);
      if (unit_of[p] < 0) {
        if (tied || !own.contains(kind)) {
          const auto unit = static_cast<int64_t>(out.units.size());
          if (!tied) own[kind] = unit;
          const auto& block = model.blocks[b].name;
          out.units.push_back({tied ? param.name : apart ? block + ".experts" : block, {}});
          out.table.frozen.push_back(!param.trained);
          unit_of[p] = unit;
        } else {
          unit_of[p] = own[kind];
        }
        out.units[static_cast<size_t>(unit_of[p])].params.push_back(index);
      }
      auto& units = out.table.units_of_block[b];
      if (std::find(units.begin(), units.end(), unit_of[p]) == units.end()) {
        units.push_back(unit_of[p]);
      }
    }
  }
  const auto declared = [&](int64_t index) -> const ParamDecl& {
    return model.params[static_cast<size_t>(index)];
  };
  for (auto& [name, params] : out.units) {
    std::stable_partition(params.begin(), params.end(),
                          [&](int64_t index) { return declared(index).decays; });
    out.table.idle_in_backward.push_back(std::none_of(
        params.begin(), params.end(), [&](int64_t i) { return declared(i).read_in_backward; }));
    auto& shapes = out.shapes.emplace_back();
    for (const int64_t index : params) {
      const auto& param = declared(index);
      shapes.push_back({param.shape, param.decays, param.cut, param.row_reads});
    }
  }
  return out;
}

std::vector<double> block_costs(const ModelDecl& model) {
  const auto readers = readers_of(model);
  std::vector<double> costs(model.blocks.size());
  for (size_t p = 0; p < model.params.size(); ++p) {
    const auto& param = model.params[p];
    const size_t block = readers.last[p];
    const bool looked_up = !param.read_in_backward && block + 1 < model.blocks.size();
    if (param.shape.size() < 2 || looked_up) continue;
    costs[block] += static_cast<double>(num_elements(param.shape));
  }
  return costs;
}

}  // namespace convoy::parallel
