#include "convoy/comm/rendezvous.h"

#include <torch/csrc/distributed/c10d/PrefixStore.hpp>

#include <algorithm>
#include <chrono>
#include <numeric>

#include "convoy/base/error.h"
#include "convoy/base/text.h"
#include "convoy/comm/agree.h"
#include "convoy/comm/gloo/gloo_engine.h"
#include "convoy/comm/hierarchy/hierarchy_engine.h"
#include "convoy/comm/hosts.h"
#include "convoy/comm/nccl/nccl_engine.h"
#include "convoy/comm/roll_call.h"
#include "convoy/comm/shm/shm_engine.h"
#include "convoy/comm/within.h"

namespace convoy::comm {

namespace {

using Clock = std::chrono::steady_clock;

/// The first that can is what `auto` takes.
std::vector<EngineEntry>& engines() {
  static std::vector<EngineEntry> all{
      {"nccl", true,
       [](const Gathering& m) {
         const auto why = why_not_nccl(m.nccl);
         return why.empty() ? "" : "cannot be used: " + why;
       },
       [](const Gathering& m) { return make_nccl_group(m.point, m.store, m.device); }},
      {"shm", false,
       [](const Gathering& m) {
         return m.num_hosts == 1
                    ? std::string()
                    : fmt::format("is for ranks of one host and user; got {} hosts", m.num_hosts);
       },
       [](const Gathering& m) { return make_shm_group(m.point, m.store); }},
      {nullptr, false,
       [](const Gathering& m) {
         return std::string(m.num_hosts < m.point.size ? "" : "is for several ranks of a host");
       },
       [](const Gathering& m) { return make_hierarchy_group(m.point, m.store, m.hosts); }},
      {"gloo", false, [](const Gathering&) { return std::string(); },
       [](const Gathering& m) { return make_gloo_group(m.point, m.store); }},
  };
  return all;
}

Group make_group(const StoreAddress& point, const c10::intrusive_ptr<c10d::Store>& store,
                 const std::vector<Introduction>& ranks, const std::string& backend,
                 at::Device device) {
  Gathering gathering{point, store, device, {}, {}, 1};
  std::vector<std::string> names;
  for (const auto& rank : ranks) {
    names.push_back(rank.host);
    gathering.nccl.push_back(rank.nccl);
  }
  gathering.hosts = number_hosts(names);
  gathering.num_hosts = 1 + *std::max_element(gathering.hosts.begin(), gathering.hosts.end());
  for (const auto& engine : engines()) {
    const bool asked = engine.name != nullptr && backend == engine.name;
    if (!asked && backend != "auto") continue;
    const auto why_not = engine.why_not(gathering);
    if (why_not.empty()) return engine.make(gathering);
    if (!asked) continue;
    fail<UsageError>("parallel", "backend = {} {}; try backend = auto", backend, why_not);
  }
  fail<UsageError>("parallel", "backend = {} is unknown; expected auto or one of {}", backend,
                   join(engine_names()));
}

/// What `make` returns. The timeouts of single waits do not add up, and some waits have none.
template <class Make>
auto by(Clock::time_point end, const StoreAddress& point, Make make) {
  constexpr std::chrono::seconds kLastWords{4};  // of a wait that knows for whom
  const QuietC10d quiet;
  try {
    if (auto made = within(until(end + kLastWords), std::move(make))) return *std::move(made);
  } catch (const c10::DistError& error) {  // of the store, which lives with rank 0
    fail<CommunicationError>("comm",
                             "start: rank {} of {} lost the store at {}:{} while the ranks were "
                             "joining: {}; try to look what ended rank 0",
                             point.rank, point.size, point.host, point.port,
                             first_line(error.what_without_backtrace()));
  }
  fail<CommunicationError>(
      "comm",
      "start: rank {} of {} could not join the others within {:g} s; a rank that came to {}:{} "
      "answers no more; try to look where each of them stands",
      point.rank, point.size, point.timeout_seconds(), point.host, point.port);
}

}  // namespace

void add_engine(const EngineEntry& entry) {
  for (const auto& name : engine_names()) {
    internal_check(name != entry.name, "comm", "there is an engine {} already", name);
  }
  engines().push_back(entry);
}

std::vector<std::string> engine_names(bool without_gpus) {
  std::vector<std::string> names;
  for (const auto& engine : engines()) {
    if (engine.name == nullptr || (without_gpus && engine.needs_gpus)) continue;
    names.emplace_back(engine.name);
  }
  return names;
}

void check_backend(const std::string& backend, at::Device device) {
  for (const auto& engine : engines()) {
    if (engine.name == nullptr || backend != engine.name) continue;
    if (!engine.needs_gpus || !device.is_cpu()) return;
    fail<UsageError>("parallel", "backend = {} needs GPUs; got CPU; try backend = auto", backend);
  }
}

Connector::Connector(const StoreAddress& point, const std::string& backend, at::Device device,
                     Clock::time_point end)
    : point_(point), backend_(backend), device_(device), end_(end) {
  check_backend(backend, device);
}

Connector::Connector(const StoreAddress& point, const std::string& backend, at::Device device,
                     const std::vector<std::string>& options)
    : Connector(point, backend, device, Clock::now() + point.timeout) {
  store_ = open_store(point);
  meet(options);
}

Connector::Connector(const StoreAddress& point, c10::intrusive_ptr<c10d::Store> store,
                     const std::string& backend, at::Device device,
                     const std::vector<std::string>& options)
    : Connector(point, backend, device, Clock::now() + point.timeout) {
  store_ = std::move(store);
  meet(options);
}

void Connector::meet(const std::vector<std::string>& options) {
  const auto nccl = own_nccl_support(device_);
  const std::vector<std::string> own{own_host(), nccl.missing, nccl.gpu, join(options, "\n")};
  const auto said = by(end_, point_, [point = point_, store = store_, own, end = end_] {
    return roll_call(point, store, own, until(end));
  });
  try {
    for (int rank = 0; rank < point_.size; ++rank) {
      const auto& words = said.at(static_cast<size_t>(rank));
      check_same(said[0][3], words[3], rank, "options");
      introductions_.push_back({.host = words[0], .nccl = {words[1], words[2]}});
    }
  } catch (const UsageError&) {
    let_all_hear(point_, store_);
    throw;
  }
}

Group Connector::connect(const std::vector<int>& ranks, const std::string& name) const {
  if (ranks.size() == 1) return {};
  const auto point = point_of(ranks);
  std::vector<Introduction> of_ranks;
  for (const int rank : ranks) of_ranks.push_back(introductions_.at(static_cast<size_t>(rank)));
  const auto store = c10::make_intrusive<c10d::PrefixStore>(name, store_);
  try {
    return by(end_, point, [=, backend = backend_, device = device_] {
      return make_group(point, store, of_ranks, backend, device);
    });
  } catch (const UsageError&) {  // rank 0 may be the first to know what all have said
    let_all_hear(point_, store_);
    throw;
  }
}

Group Connector::connect_later(const std::vector<int>& ranks, const std::string& name,
                               std::chrono::milliseconds patience) const {
  if (ranks.size() == 1) return {};
  auto point = point_of(ranks);
  point.patience = patience;
  const auto end = Clock::now() + point.timeout;
  const auto store = c10::make_intrusive<c10d::PrefixStore>(name, store_);
  return by(end, point, [=] {
    roll_call(point, store, {}, until(end));  // names those that have gone since
    return make_gloo_group(point, store);
  });
}

StoreAddress Connector::point_of(const std::vector<int>& ranks) const {
  auto point = point_;
  point.size = static_cast<int>(ranks.size());
  point.rank = static_cast<int>(std::find(ranks.begin(), ranks.end(), point_.rank) - ranks.begin());
  point.names.clear();
  for (const int rank : ranks) point.names.push_back(point_.name(rank));
  return point;
}

Group connect(const StoreAddress& point, const std::string& backend, at::Device device) {
  std::vector<int> ranks(static_cast<size_t>(point.size));
  std::iota(ranks.begin(), ranks.end(), 0);
  return Connector(point, backend, device).connect(ranks, "world");
}

}  // namespace convoy::comm
