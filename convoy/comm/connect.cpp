#include "convoy/comm/connect.h"

#include <algorithm>

#include "convoy/base/error.h"
#include "convoy/base/text.h"
#include "convoy/comm/gloo/gloo_engine.h"
#include "convoy/comm/hierarchy/hierarchy_engine.h"
#include "convoy/comm/hosts.h"
#include "convoy/comm/nccl/nccl_engine.h"
#include "convoy/comm/shm/shm_engine.h"

namespace convoy::comm {

void check_backend(const std::string& backend, at::Device device) {
  if (backend == "nccl" && device.is_cpu()) {
    fail<UsageError>("parallel", "backend = nccl needs GPUs; got CPU; try backend = auto");
  }
}

Group connect(const MeetingPoint& point, const std::string& backend, at::Device device) {
  check_backend(backend, device);
  return connect(point, open_store(point), backend, device);
}

Group connect(const MeetingPoint& point, const c10::intrusive_ptr<c10d::Store>& store,
              const std::string& backend, at::Device device) {
  check_backend(backend, device);
  if (backend == "nccl" || (backend == "auto" && device.is_cuda() && has_nccl())) {
    return make_nccl_group(point, store, device);
  }
  if (backend == "gloo") return make_gloo_group(point, store);
  try {
    const auto hosts = find_hosts(point, store);
    const int num_hosts = 1 + *std::max_element(hosts.begin(), hosts.end());
    if (num_hosts == 1) return make_shm_group(point, store);
    if (backend == "shm") {
      fail<UsageError>("parallel",
                       "backend = shm is for ranks of one host and user; got {} hosts; try "
                       "backend = auto",
                       num_hosts);
    }
    if (num_hosts == point.size) return make_gloo_group(point, store);
    return make_hierarchy_group(point, store, hosts);
  } catch (const c10::Error& error) {
    fail<CommunicationError>("comm", "start: rank {} of {} did not find the others: {}", point.rank,
                             point.size, first_line(error.what_without_backtrace()));
  }
}

}  // namespace convoy::comm
