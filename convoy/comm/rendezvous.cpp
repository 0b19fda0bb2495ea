#include "convoy/comm/rendezvous.h"

#include <torch/csrc/distributed/c10d/PrefixStore.hpp>

#include <algorithm>
#include <chrono>
#include <numeric>

#include "convoy/base/error.h"
#include "convoy/base/text.h"
#include "convoy/comm/agree.h"
#include "convoy/comm/gloo/gloo_engine.h"
#include "convoy/comm/hosts.h"
#include "convoy/comm/roll_call.h"
#include "convoy/comm/within.h"

namespace convoy::comm {

namespace {

using Clock = std::chrono::steady_clock;

Gathering gather(const StoreAddress& point, const c10::intrusive_ptr<c10d::Store>& store,
                 const std::vector<Introduction>& ranks, at::Device device) {
  Gathering out{point, store, device, {}, {}, 1};
  std::vector<std::string> names;
  for (const auto& rank : ranks) {
    names.push_back(rank.host);
    out.nccl.push_back(rank.nccl);
  }
  out.hosts = number_hosts(names);
  out.num_hosts = 1 + *std::max_element(out.hosts.begin(), out.hosts.end());
  return out;
}

/// Returns the result of `make`, or throws once `end` has passed, which bounds all waits together,
/// also those without a timeout.
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
  // Ranks of another job that come here by mistake have other keys, and in the end look whose.
  const auto met = store_;
  store_ = c10::make_intrusive<c10d::PrefixStore>(size_and_job(point_), met);
  const auto said = by(end_, point_, [point = point_, met, store = store_, own, end = end_] {
    if (point.rank == 0) met->set(kJob, size_and_job(point));
    return roll_call(point, store, own, until(end), [&] { check_job(point, *met); });
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
      return make_group(gather(point, store, of_ranks, device), backend);
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
