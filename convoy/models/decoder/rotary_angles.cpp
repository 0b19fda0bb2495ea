#include "convoy/models/decoder/rotary_angles.h"

#include <ATen/ATen.h>

#include <vector>

#include "convoy/base/error.h"
#include "convoy/comm/device.h"
#include "convoy/comm/to_host.h"
#include "convoy/nn/documents.h"

namespace convoy::models {

namespace {

/// Factors [..., 1] of queries at `positions` [...], which grow with the logarithm of position over
/// original length. Undefined where all are one.
at::Tensor factors_at(const nn::RotaryOptions& options, const at::Tensor& positions,
                      at::Device device) {
  if (options.query_beta == 0) return {};
  const auto times =
      (comm::download(positions).to(at::kFloat) / static_cast<double>(options.original_length))
          .floor();
  return comm::upload((1 + options.query_beta * (1 + times).log()).unsqueeze(-1), device);
}

/// Throws UsageError where a text grows beyond the original length: the cached keys were rotated by
/// the angles of short texts.
void refuse_to_cross(const at::Tensor& positions, const nn::RotaryOptions& options) {
  if (options.type != "longrope" || positions.numel() == 0) return;
  const auto first = positions.select(1, 0);
  const auto last = positions.select(1, positions.size(1) - 1);
  const auto crosses = (first > 0) & (first <= options.max_length) & (last >= options.max_length);
  if (!comm::item<bool>(crosses.any())) return;
  fail<UsageError>("models",
                   "a text grows beyond original_max_position_embeddings = {}, from where all of "
                   "its positions are turned by other angles than those that are cached; try "
                   "--no-cache, or fewer new tokens",
                   options.max_length);
}

}  // namespace

const nn::RotaryTables& RotaryAngles::tables(const nn::Bundle& batch, int64_t length,
                                             at::Device device) {
  const auto given = [&](const char* name) {
    const auto found = batch.find(name);
    return found == batch.end() ? at::Tensor() : found->second;
  };
  const auto positions = given("positions");
  const auto mask = by_row_ ? given("key_mask") : at::Tensor();
  const auto documents = by_row_ ? nn::documents_of(batch) : at::Tensor();
  const bool same = positions.is_same(positions_) && mask.is_same(mask_) &&
                    documents.is_same(documents_) && tables_.cos.defined() &&
                    tables_.cos.device() == device &&
                    (positions.defined() || tables_.cos.size(-2) == length);
  if (same) return tables_;
  positions_ = positions;
  mask_ = mask;
  documents_ = documents;
  if (!positions.defined() && !mask.defined()) {
    tables_ = nn::rotary_tables(options_, length, width_, device);
    query_factors_ = factors_at(options_, at::arange(length, at::kLong), device);
    return tables_;
  }
  const auto places =
      positions.defined()
          ? positions
          : at::arange(length, mask.options().dtype(at::kLong)).expand({mask.size(0), length});
  const auto tables = by_row_ ? of_rows(places, mask, documents)
                              : nn::rotary_tables(options_, places, length, width_);
  tables_ = {comm::upload(tables.cos.unsqueeze(1), device),
             comm::upload(tables.sin.unsqueeze(1), device)};
  query_factors_ = factors_at(options_, places, device);
  if (query_factors_.defined()) query_factors_ = query_factors_.unsqueeze(1);
  return tables_;
}

// Tables of each row [B, T], or document of it, by its own length, which stretches all of its
// angles: neither the others nor padding may.
nn::RotaryTables RotaryAngles::of_rows(const at::Tensor& positions, const at::Tensor& mask,
                                       const at::Tensor& documents) const {
  auto real = comm::download(positions);
  if (mask.defined()) {  // of what a cache holds, too
    const int64_t T = positions.size(1);
    const auto here = comm::download(mask).narrow(1, mask.size(1) - T, T);
    real = real.masked_fill(here.logical_not(), 0);
  }
  if (!documents.defined()) refuse_to_cross(real, options_);
  if (real.numel() == 0 || comm::item<int64_t>(real.max()) < options_.max_length) {
    return nn::rotary_tables(options_, positions, options_.max_length, width_);
  }
  const auto flat = positions.reshape({-1}), lasts = real.reshape({-1});
  std::vector<at::Tensor> cos, sin;
  const auto add = [&](int64_t begin, int64_t count) {
    const auto length = comm::item<int64_t>(lasts.narrow(0, begin, count).max()) + 1;
    const auto tables = nn::rotary_tables(options_, flat.narrow(0, begin, count), length, width_);
    cos.push_back(tables.cos);
    sin.push_back(tables.sin);
  };
  const int64_t B = positions.size(0), T = positions.size(1);
  if (documents.defined()) {
    for (const auto& place : nn::places_of_documents(documents)) {
      add(place.row * T + place.begin, place.length);
    }
  } else {
    for (int64_t row = 0; row < B; ++row) add(row * T, T);
  }
  return {at::cat(cos).unflatten(0, {B, T}), at::cat(sin).unflatten(0, {B, T})};
}

}  // namespace convoy::models
