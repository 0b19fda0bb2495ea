#include "convoy/checkpoint/host_copies.h"

#include <ATen/ATen.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <memory>
#include <set>
#include <utility>

#include "convoy/base/error.h"
#include "convoy/base/fault.h"
#include "convoy/base/files.h"
#include "convoy/base/json_value.h"
#include "convoy/base/mapped_file.h"
#include "convoy/base/text.h"
#include "convoy/checkpoint/folder.h"
#include "convoy/checkpoint/manifest.h"
#include "convoy/checkpoint/reason.h"
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

/// Throws FileError unless this host's copy is as it was written. Each rank looks at its share.
void check_own(const fs::path& copy, const HostPlace& place) {
  if (!fs::exists(copy / Manifest::kName)) {
    fail<FileError>("checkpoint", "it has no {}", Manifest::kName);
  }
  const auto manifest = Manifest::read(copy);
  manifest.check_files(copy);
  const auto wrong = place.is_first() ? manifest.wrong_others(copy) : std::vector<std::string>();
  if (!wrong.empty()) fail<FileError>("checkpoint", "{}", join(wrong, "; "));
  int turn = 0;
  for (const auto& path : {copy, copy / kOptimizer}) {
    const formats::SafetensorsFolder files(path);
    const auto sums = expected_sums(files);
    for (const auto& [name, file] : files.tensors()) {
      const bool own = turn++ % place.num_local_ranks == place.local_rank;
      if (own) check_sum(files, name, sums);
    }
  }
}

/// Removes broken copies of a step, each on its own host, also from `held`. Collective.
BrokenCopies drop_broken(int64_t step, HeldCopies& held, const CopySlots& slots,
                         const HostPlace& place, const comm::Group& group) {
  auto out = find_broken(step, held, slots, place, group);
  for (const int host : out.hosts) {
    std::erase(held.steps.at(static_cast<size_t>(host)), step);
    std::error_code ignored;
    if (host == place.host && place.is_first()) fs::remove_all(slots.copy_of(step), ignored);
  }
  return out;
}

}  // namespace

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

std::vector<int64_t> HeldCopies::all() const {
  std::set<int64_t, std::greater<>> out;
  for (const auto& own : steps) out.insert(own.begin(), own.end());
  return {out.begin(), out.end()};
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
                const HostPlace& place, const std::map<std::string, std::string>& own,
                const comm::Group& group) {
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
          if (!own.contains(name)) write_plain(slots.unfinished() / name, text.get<std::string>());
        }
        for (const auto& [name, text] : own) write_plain(slots.unfinished() / name, text);
        slots.finish(step);
      },
      comm::Lasts::Long);
}

BrokenCopies find_broken(int64_t step, const HeldCopies& held, const CopySlots& slots,
                         const HostPlace& place, const comm::Group& group) {
  std::string why;
  comm::each_rank(
      group, "check memory copies",
      [&] {
        try {
          if (held.holds(place.host, step)) check_own(slots.copy_of(step), place);
        } catch (const FileError& error) {
          why = reason_of(error);
        }
      },
      comm::Lasts::Long);
  // The greatest number of a host is that of its first rank which found something.
  auto found = at::zeros({place.num_hosts}, at::kLong);
  if (!why.empty()) found[place.host] = group.size() - group.rank();
  group.all_reduce(found, comm::ReduceOp::Max, "tell broken copies");
  BrokenCopies out;
  int asked = -1;
  for (int host = 0; host < place.num_hosts; ++host) {
    const auto number = static_cast<int>(found.const_data_ptr<int64_t>()[host]);
    if (number == 0) continue;
    if (out.hosts.empty()) asked = group.size() - number;
    out.hosts.push_back(host);
  }
  if (asked < 0) return out;
  out.why = comm::ask_rank(group, asked, "tell broken copies", [&] {
              return Json(why);
            }).get<std::string>();
  return out;
}

SharedCopy share_copy(int64_t step, HeldCopies held, const CopySlots& slots, const HostPlace& place,
                      const std::map<std::string, std::string>& own, const comm::Group& group) {
  SharedCopy out;
  const auto warn = [&](const std::string& what, const std::string& why) {
    out.warnings.push_back(fmt::format("the memory copy of step {} {}: {}", step, what, why));
  };
  const auto broken = drop_broken(step, held, slots, place, group);
  const auto left = held.all();
  out.is_whole = std::ranges::find(left, step) != left.end();
  if (!broken.hosts.empty()) {
    warn(out.is_whole ? fmt::format("is dropped on host {}", fmt::join(broken.hosts, ", "))
                      : "is passed over",
         broken.why);
  }
  if (!out.is_whole || held.all_hold(step)) return out;
  out.is_whole = false;
  try {
    bring_copy(step, held, slots, place, own, group);
    auto brought = held;
    for (auto& steps : brought.steps) {
      const bool had = std::erase(steps, step) > 0;
      if (!had) steps.push_back(step);
    }
    const auto again = drop_broken(step, brought, slots, place, group);
    out.is_whole = again.hosts.empty();
    if (!out.is_whole) warn("does not come to all hosts", again.why);
  } catch (const FileError& error) {  // of all ranks
    warn("does not come to all hosts", reason_of(error));
  }
  return out;
}

}  // namespace convoy::checkpoint
