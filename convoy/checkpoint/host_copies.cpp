#include "convoy/checkpoint/host_copies.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <memory>
#include <utility>

#include "convoy/base/error.h"
#include "convoy/base/fault.h"
#include "convoy/base/files.h"
#include "convoy/base/json_value.h"
#include "convoy/base/mapped_file.h"
#include "convoy/checkpoint/folder.h"
#include "convoy/checkpoint/sums.h"
#include "convoy/comm/agree.h"

namespace convoy::checkpoint {
namespace fs = std::filesystem;

namespace {

constexpr int64_t kMostCopies = 2;

/// Files of a copy, as the host that has it tells the others.
Json describe(const CopySlots& slots, int64_t step) try {
  const auto copy = slots.copy_of(step);
  Json out = {{"tensors", Json::array()}, {"texts", Json::object()}};
  std::vector<std::string> names;
  for (const auto& [name, bytes] : slots.files_of(copy)) {
    out["tensors"].push_back({{"name", name}, {"bytes", bytes}});
    names.push_back(name);
  }
  for (const auto& entry : fs::directory_iterator(copy)) {
    const auto name = entry.path().filename().string();
    if (std::ranges::find(names, name) != names.end()) continue;
    out["texts"][name] = read_file(entry.path());
  }
  return out;
} catch (const fs::filesystem_error& error) {
  fail<FileError>("checkpoint", "cannot read a copy in memory: {}", error.what());
}

/// Sends the bytes of a file to all ranks; `from` and `to` are null where a rank has none, or
/// wants none.
void send_bytes(const std::byte* from, std::byte* to, size_t bytes, int root,
                const comm::Group& group) {
  constexpr size_t kAtOnce = size_t{16} << 20;
  auto buffer = at::empty({static_cast<int64_t>(std::min(kAtOnce, bytes))}, at::kByte);
  for (size_t at = 0; at < bytes; at += kAtOnce) {
    const size_t some = std::min(kAtOnce, bytes - at);
    auto part = buffer.narrow(0, 0, static_cast<int64_t>(some));
    if (from != nullptr) std::memcpy(part.data_ptr(), from + at, some);
    group.broadcast(part, root, "bring a memory copy");
    if (to != nullptr) std::memcpy(to + at, part.data_ptr(), some);
  }
}

}  // namespace

int64_t HeldCopies::newest() const {
  int64_t out = -1;
  for (const auto& own : steps) {
    for (const auto step : own) out = std::max(out, step);
  }
  return out;
}

bool HeldCopies::holds(int host, int64_t step) const {
  const auto& own = steps.at(static_cast<size_t>(host));
  return std::ranges::find(own, step) != own.end();
}

bool HeldCopies::all_hold(int64_t step) const {
  for (int host = 0; host < std::ssize(steps); ++host) {
    if (!holds(host, step)) return false;
  }
  return true;
}

std::vector<int64_t> HeldCopies::common() const {
  std::vector<int64_t> out;
  for (const auto step : steps.at(0)) {
    if (all_hold(step)) out.push_back(step);
  }
  std::ranges::sort(out, std::greater<>());
  return out;
}

HeldCopies tell_copies(const std::vector<int64_t>& steps, const HostPlace& place,
                       const comm::Group& group) {
  auto told = at::full({place.num_hosts, kMostCopies + 1}, -1, at::kLong);
  if (place.is_first()) {
    auto own = told[place.host];
    own[0] = group.rank();
    for (int64_t i = 0; i < std::min(kMostCopies, std::ssize(steps)); ++i) {
      own[i + 1] = steps[static_cast<size_t>(i)];
    }
  }
  group.all_reduce(told, comm::ReduceOp::Max, "tell memory copies");
  HeldCopies out;
  const auto* number = told.const_data_ptr<int64_t>();
  for (int host = 0; host < place.num_hosts; ++host, number += kMostCopies + 1) {
    out.first_rank.push_back(static_cast<int>(number[0]));
    auto& own = out.steps.emplace_back();
    for (int64_t i = 1; i <= kMostCopies; ++i) {
      if (number[i] >= 0) own.push_back(number[i]);
    }
  }
  return out;
}

void bring_copy(int64_t step, const HeldCopies& held, const CopySlots& slots,
                const HostPlace& place, const comm::Group& group) {
  constexpr const char* kLabel = "bring a memory copy";
  int source = 0;
  while (!held.holds(source, step)) ++source;
  const int root = held.first_rank.at(static_cast<size_t>(source));
  const bool sends = group.rank() == root;
  const bool takes = place.is_first() && !held.holds(place.host, step);
  const Json told = comm::ask_rank(group, root, kLabel, [&] { return describe(slots, step); });
  std::vector<CopyFile> files;
  for (const Json& file : told.at("tensors")) {
    files.push_back({file.at("name"), value_from<size_t>(file.at("bytes"))});
  }
  std::vector<std::unique_ptr<MappedFile>> from;
  std::unique_ptr<MappedSlot> to;
  comm::each_rank(
      group, kLabel,
      [&] {
        for (size_t f = 0; sends && f < files.size(); ++f) {
          from.push_back(std::make_unique<MappedFile>(slots.copy_of(step) / files[f].name,
                                                      "checkpoint", "the tensors of a copy"));
        }
        if (takes) to = std::make_unique<MappedSlot>(slots.folder(), slots.begin(files, {}), files);
      },
      comm::Lasts::Long);
  for (size_t f = 0; f < files.size(); ++f) {
    if (f > 0) fault_at("bring");
    send_bytes(sends ? from[f]->bytes().data() : nullptr, to ? to->file(f) : nullptr,
               files[f].bytes, root, group);
  }
  comm::each_rank(
      group, kLabel,
      [&] {
        if (!takes) return;
        for (const auto& [name, text] : told.at("texts").items()) {
          write_plain(slots.unfinished() / name, text.get<std::string>());
        }
        slots.finish(step);
      },
      comm::Lasts::Long);
}

void check_held(int64_t step, const CopySlots& slots, const HostPlace& place,
                const comm::Group& group) {
  comm::each_rank(
      group, "check memory copies",
      [&] {
        const auto copy = slots.copy_of(step);
        int turn = 0;
        for (const auto& path : {copy, copy / kOptimizer}) {
          const formats::SafetensorsFolder files(path);
          const auto sums = expected_sums(files);
          for (const auto& [name, file] : files.tensors()) {
            const bool own = turn++ % place.num_local_ranks == place.local_rank;
            if (own) check_sum(files, name, sums);
          }
        }
      },
      comm::Lasts::Long);
}

}  // namespace convoy::checkpoint
