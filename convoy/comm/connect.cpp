#include "convoy/comm/connect.h"

#include <torch/csrc/distributed/c10d/PrefixStore.hpp>

#include <algorithm>
#include <chrono>

#include "convoy/base/error.h"
#include "convoy/base/text.h"
#include "convoy/comm/gloo/gloo_engine.h"
#include "convoy/comm/hierarchy/hierarchy_engine.h"
#include "convoy/comm/hosts.h"
#include "convoy/comm/nccl/nccl_engine.h"
#include "convoy/comm/nccl/support.h"
#include "convoy/comm/shm/shm_engine.h"
#include "convoy/comm/within.h"

namespace convoy::comm {

void check_backend(const std::string& backend, at::Device device) {
  if (backend == "nccl" && device.is_cpu()) {
    fail<UsageError>("parallel", "backend = nccl needs GPUs; got CPU; try backend = auto");
  }
}

namespace {

using Clock = std::chrono::steady_clock;

Group make_group(const MeetingPoint& point, const c10::intrusive_ptr<c10d::Store>& store,
                 const std::string& backend, at::Device device, Clock::time_point end) {
  const auto hosts = find_hosts(point, store, until(end));
  const int num_hosts = 1 + *std::max_element(hosts.begin(), hosts.end());
  if (backend == "gloo") return make_gloo_group(point, store);
  if (backend != "shm") {
    const auto why = why_not_nccl(gather_nccl_support(point, store, device));
    if (why.empty()) return make_nccl_group(point, store, device);
    if (backend == "nccl") {
      fail<UsageError>("parallel", "backend = nccl cannot be used: {}; try backend = auto", why);
    }
  }
  if (num_hosts == 1) return make_shm_group(point, store);
  if (backend == "shm") {
    fail<UsageError>("parallel",
                     "backend = shm is for ranks of one host and user; got {} hosts; try "
                     "backend = auto",
                     num_hosts);
  }
  if (num_hosts == point.size) return make_gloo_group(point, store);
  return make_hierarchy_group(point, store, hosts);
}

/// The timeouts of single waits do not add up, and some waits have none.
Group meet(const MeetingPoint& point, const c10::intrusive_ptr<c10d::Store>& store,
           const std::string& backend, at::Device device, Clock::time_point end) {
  constexpr std::chrono::seconds kLastWords{1};  // of a wait that knows for whom
  const QuietC10d quiet;
  try {
    auto group = within(until(end + kLastWords),
                        [=] { return make_group(point, store, backend, device, end); });
    if (group) return *group;
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

Group connect(const MeetingPoint& point, const std::string& backend, at::Device device) {
  check_backend(backend, device);
  const auto end = Clock::now() + point.timeout;
  return meet(point, open_store(point), backend, device, end);
}

Group connect(const MeetingPoint& point, const c10::intrusive_ptr<c10d::Store>& store,
              const std::string& backend, at::Device device) {
  check_backend(backend, device);
  return meet(point, store, backend, device, Clock::now() + point.timeout);
}

Connector::Connector(const MeetingPoint& point, const std::string& backend, at::Device device)
    : point_(point), backend_(backend), device_(device), end_(Clock::now() + point.timeout) {
  check_backend(backend, device);
  store_ = open_store(point);
}

Group Connector::connect(const std::vector<int>& ranks, const std::string& name) const {
  return meet_some(ranks, name, backend_, device_, end_);
}

Group Connector::connect_later(const std::vector<int>& ranks, const std::string& name) const {
  return meet_some(ranks, name, "gloo", at::kCPU, Clock::now() + point_.timeout);
}

Group Connector::meet_some(const std::vector<int>& ranks, const std::string& name,
                           const std::string& backend, at::Device device,
                           Clock::time_point end) const {
  if (ranks.size() == 1) return {};
  auto point = point_;
  point.size = static_cast<int>(ranks.size());
  point.rank = static_cast<int>(std::find(ranks.begin(), ranks.end(), point_.rank) - ranks.begin());
  point.names.clear();
  for (const int rank : ranks) point.names.push_back(point_.name(rank));
  auto store = c10::make_intrusive<c10d::PrefixStore>(name, store_);
  return meet(point, store, backend, device, end);
}

}  // namespace convoy::comm
