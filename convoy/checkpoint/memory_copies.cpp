#include "convoy/checkpoint/memory_copies.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "convoy/base/fault.h"
#include "convoy/base/json_value.h"
#include "convoy/checkpoint/adapter.h"
#include "convoy/checkpoint/folder.h"
#include "convoy/checkpoint/host_parts.h"
#include "convoy/checkpoint/manifest.h"
#include "convoy/checkpoint/save.h"
#include "convoy/checkpoint/send_parts.h"
#include "convoy/checkpoint/sums.h"
#include "convoy/comm/agree.h"
#include "convoy/comm/to_host.h"

namespace convoy::checkpoint {
namespace fs = std::filesystem;

using formats::SafetensorsPlan;
using parallel::State;

namespace {

/// Whether no step changes a tensor: a frozen weight, or one that is carried along.
bool is_unchanging(const parallel::StateTensor& tensor) {
  const bool constant = std::ranges::all_of(tensor.pieces, &parallel::StatePiece::constant);
  return !tensor.trained && (!tensor.is_buffer || (constant && !tensor.pieces.empty()));
}

}  // namespace

MemoryCopies::MemoryCopies(fs::path folder, const HostPlace& place,
                           std::map<std::string, std::string> own)
    : slots_(std::move(folder)), place_(place), own_(std::move(own)) {}

MemoryCopies::~MemoryCopies() = default;

int64_t MemoryCopies::bytes_of_both(const State& weights, const State& moments) {
  return static_cast<int64_t>(
      2 * (SafetensorsPlan(infos_of(weights)).bytes + SafetensorsPlan(infos_of(moments)).bytes));
}

void MemoryCopies::lay_out(const State& weights, const State& moments) {
  if (!files_.empty()) return;
  for (const auto* state : {&weights, &moments}) {
    plans_.emplace_back(infos_of(*state));
    files_.push_back(
        {state == &weights ? weights_file(weights) : std::string(kOptimizer), plans_.back().bytes});
    for (const auto& tensor : *state) {
      home_.push_back({plans_.size() - 1, plans_.back().begin.at(tensor.name)});
    }
  }
}

/// Prepares the slot of the older copy of each host for a new one. Returns the number of this
/// host's.
int MemoryCopies::prepare(const comm::Group& group) {
  auto slot = at::zeros({place_.num_hosts}, at::kLong);
  comm::each_rank(
      group, "prepare a memory copy",
      [&] {
        if (!place_.is_first()) return;
        slot.mutable_data_ptr<int64_t>()[place_.host] =
            slots_.begin(files_, {mapped_[0] != nullptr, mapped_[1] != nullptr});
      },
      comm::Lasts::Long);
  group.all_reduce(slot, comm::ReduceOp::Max, "tell slots");
  return static_cast<int>(slot.const_data_ptr<int64_t>()[place_.host]);
}

void MemoryCopies::write(int64_t step, const State& weights, const State& moments,
                         const std::map<std::string, std::string>& texts, const comm::Group& group,
                         bool sends) {
  lay_out(weights, moments);
  State state = weights;
  state.insert(state.end(), moments.begin(), moments.end());
  keep_own(state, /*all_see=*/true);
  const auto all_texts = place_.num_hosts == 1
                             ? texts
                             : value_from<std::map<std::string, std::string>>(comm::ask_main(
                                   group, "tell small files", [&] { return Json(texts); }));
  const int slot = prepare(group);
  Sums sums(state);
  std::vector<CopyRange> ranges;
  comm::each_rank(group, "copy to memory", [&] { ranges = put(state, slot, sums); });
  if (sends) send_parts(ranges, *mapped_.at(static_cast<size_t>(slot)), place_, group);
  fault_at("copy_sum");
  const auto all_sums =
      sends ? sums.together(group) : sums.together(group, place_.host, place_.num_hosts);
  comm::each_rank(
      group, "finish a memory copy",
      [&] {
        if (place_.is_first()) finish(step, state, all_sums, all_texts);
      },
      comm::Lasts::Long);
}

/// Gives this host's copy its small files, its manifest and its name.
void MemoryCopies::finish(int64_t step, const State& state, const std::vector<uint64_t>& sums,
                          const std::map<std::string, std::string>& texts) const {
  Manifest manifest;
  for (const auto& [name, bytes] : files_) manifest.set_bytes(name, bytes);
  for (size_t t = 0; t < state.size(); ++t) {
    manifest.set(files_[home_[t].file].name, state[t].name, sums[t]);
  }
  const auto folder = slots_.unfinished();
  for (const auto& [name, text] : texts) write_plain(folder / name, text);
  manifest.set_others(folder);
  write_plain(folder / Manifest::kName, manifest.to_text());
  for (const auto& [name, text] : own_) write_plain(folder / name, text);  // in no manifest
  fault_at("copy_end");
  slots_.finish(step);
}

/// Copies this rank's pieces, and adds up their checksums while their values are in the caches.
/// Copies tensors that no step changes once into each slot. Returns where it wrote.
std::vector<CopyRange> MemoryCopies::put(const State& state, int slot, Sums& sums) {
  constexpr int64_t kBytes = int64_t{1} << 20;
  auto& mapped = mapped_.at(static_cast<size_t>(slot));
  if (!mapped) mapped = std::make_unique<MappedSlot>(slots_.folder(), slot, files_);
  for (size_t f = 0; place_.is_first() && f < files_.size(); ++f) {
    const auto& head = plans_[f].head;
    std::memcpy(mapped->file(f), head.data(), head.size());
  }
  auto& is_again = has_unchanging_.at(static_cast<size_t>(slot));
  State changing = state;
  for (size_t t = 0; t < state.size(); ++t) {
    if (!is_again || !is_unchanging(state[t])) continue;
    changing[t].pieces.clear();
    sums.add(t, unchanging_sums_[t]);
  }
  for (size_t t = 0; t < state.size() && !is_again; ++t) {
    if (is_unchanging(state[t])) unchanging_sums_[t] = 0;
  }
  size_t done = 0;
  std::vector<CopyRange> ranges;
  each_on_host(changing, /*backward=*/false, [&](size_t t, const parallel::StatePiece& piece) {
    if (2 * t >= state.size() && done++ == 0) fault_at("copy");
    auto* to = mapped->file(home_[t].file) + home_[t].begin;
    add_ranges(ranges, home_[t].file, home_[t].begin, piece);
    const auto parts = piece.parts(kBytes);
    std::vector<uint64_t> part_sums(parts.size());
    at::parallel_for(0, std::ssize(parts), 1, [&](int64_t begin, int64_t end) {
      for (auto p = static_cast<size_t>(begin); p < static_cast<size_t>(end); ++p) {
        const auto values = parts[p].on_host();
        part_sums[p] = Sums::of(parts[p], values);
        const auto* from = static_cast<const std::byte*>(values.const_data_ptr());
        const auto width = values.element_size();
        parallel::each_row(parts[p], [&](int64_t first, int64_t at, int64_t length) {
          std::memcpy(to + static_cast<size_t>(first) * width,
                      from + static_cast<size_t>(at) * width, static_cast<size_t>(length) * width);
        });
      }
    });
    const auto unchanging = unchanging_sums_.find(t);
    for (const auto sum : part_sums) {
      sums.add(t, sum);
      if (unchanging != unchanging_sums_.end()) unchanging->second += sum;
    }
  });
  is_again = true;
  return ranges;
}

}  // namespace convoy::checkpoint
