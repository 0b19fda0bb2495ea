#include "convoy/comm/gloo/gloo_engine.h"

#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>

#include <algorithm>
#include <cstdlib>

#include "convoy/base/error.h"
#include "convoy/base/text.h"
#include "convoy/comm/c10d_engine.h"
#include "convoy/comm/staged_engine.h"

namespace convoy::comm {

std::shared_ptr<Engine> make_gloo_engine(const StoreAddress& point,
                                         const c10::intrusive_ptr<c10d::Store>& store) {
  // One store request for the addresses of all ranks, instead of one for each other rank.
  [[maybe_unused]] static const int once = ::setenv("GLOO_ENABLE_STORE_V2_API", "1", 0);
  try {
    auto options = c10d::ProcessGroupGloo::Options::create(std::max(point.timeout, point.patience));
    const char* interface = std::getenv("GLOO_SOCKET_IFNAME");
    if (point.on_loopback()) {
      options->devices.push_back(c10d::ProcessGroupGloo::createDeviceForHostname("127.0.0.1"));
    } else if (interface != nullptr) {
      options->devices.push_back(c10d::ProcessGroupGloo::createDeviceForInterface(interface));
    } else {
      options->devices.push_back(c10d::ProcessGroupGloo::createDefaultDevice());
    }
    auto backend = c10::make_intrusive<c10d::ProcessGroupGloo>(
        c10::make_intrusive<c10d::PrefixStore>("gloo", store), point.rank, point.size, options);
    return make_c10d_engine("gloo", backend, point.names);
  } catch (const Error&) {
    throw;
  } catch (const std::exception& error) {
    fail<CommunicationError>("comm", "rank {} of {} could not join the group at {}:{}: {}",
                             point.rank, point.size, point.host, point.port,
                             first_line(error.what()));
  }
}

Group make_gloo_group(const StoreAddress& point, const c10::intrusive_ptr<c10d::Store>& store) {
  return Group(point.rank, point.size,
               make_staged_engine(make_gloo_engine(point, store), at::kCPU));
}

}  // namespace convoy::comm
