#include "convoy/parallel/row_tables/torch/row_tables.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "convoy/base/error.h"
#include "convoy/comm/device.h"

namespace convoy::parallel {

namespace {

StateTensor& tensor_of(State& state, const std::string& name) {
  const auto found =
      std::find_if(state.begin(), state.end(), [&](const auto& t) { return t.name == name; });
  internal_check(found != state.end(), "parallel", "no state of {}", name);
  return *found;
}

}  // namespace

RowTables::RowTables(const nn::BlockList& blocks, FlatBuffers& flat, const comm::Group& ranks)
    : blocks_(blocks), ranks_(ranks) {
  for (const int64_t unit : flat.layout().row_units()) tables_.emplace_back(flat, unit, ranks);
}

RowTable& RowTables::of(int64_t unit) {
  const auto found = std::find_if(tables_.begin(), tables_.end(),
                                  [&](const auto& table) { return table.unit() == unit; });
  internal_check(found != tables_.end(), "parallel", "unit {} is not kept by rows", unit);
  return *found;
}

void RowTables::fetch(int64_t unit, const std::vector<MicroBatch>& micro_batches,
                      const StepInput& input, nn::Mode mode) {
  auto& table = of(unit);
  std::vector<at::Tensor> ids{at::empty({0}, at::kLong)};
  for (const auto& batch : micro_batches) {
    if (batch.empty()) continue;
    nn::Context context{.mode = mode,
                        .seed = input.seed,
                        .step = input.step,
                        .samples = batch.samples,
                        .loaded = &batch.inputs};
    for (size_t b = 0; b < blocks_.size(); ++b) {
      const auto& params = blocks_[b]->params();
      if (std::find(params.begin(), params.end(), table.param()) == params.end()) continue;
      context.block = static_cast<int64_t>(b);
      ids.push_back(comm::download(blocks_[b]->rows_read(*table.param(), batch.inputs, context)));
    }
  }
  table.fetch(at::cat(ids), mode == nn::Mode::Train);
}

void RowTables::draw(const std::set<std::string>& names, uint64_t seed) {
  for (auto& table : tables_) {
    if (names.contains(table.param()->spec().name)) table.draw(seed);
  }
}

void RowTables::restart() {
  for (auto& table : tables_) table.restart();
}

void RowTables::make_up() {
  for (auto& table : tables_) table.make_up();
}

/// Piece of the weights, or of an optimizer state. A rank's rows are strided in the whole table
/// where there are several ranks.
StatePiece RowTables::piece_of(const RowState& state, size_t which) const {
  const auto& rows = which == 0 ? state.weights : state.states[which - 1];
  const int64_t width = rows.size(1);
  StatePiece out{.begin = ranks_.rank() * width, .values = rows, .stride = ranks_.size() * width};
  if (!state.changing.empty()) out.changing = state.changing[which];
  return out;
}

void RowTables::add_weights(State& state) const {
  for (const auto& table : tables_) {
    if (table.state().weights.size(0) == 0) continue;
    tensor_of(state, table.param()->spec().name).pieces.push_back(piece_of(table.state(), 0));
  }
}

void RowTables::add_moments(State& state, const std::vector<optim::StateSpec>& specs) const {
  for (const auto& table : tables_) {
    for (size_t k = 0; k < specs.size(); ++k) {
      if (table.state().weights.size(0) == 0) continue;
      tensor_of(state, specs[k].name + "." + table.param()->spec().name)
          .pieces.push_back(piece_of(table.state(), k + 1));
    }
  }
}

int64_t RowTables::weight_bytes() const {
  int64_t out = 0;
  for (const auto& table : tables_) out += table.weight_bytes();
  return out;
}

int64_t RowTables::optimizer_bytes() const {
  int64_t out = 0;
  for (const auto& table : tables_) out += table.optimizer_bytes();
  return out;
}

int64_t RowTables::fetched_bytes() const {
  int64_t out = 0;
  for (const auto& table : tables_) out += table.fetched_bytes();
  return out;
}

}  // namespace convoy::parallel
