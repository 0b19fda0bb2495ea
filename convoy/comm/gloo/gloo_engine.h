#pragma once

#include "convoy/comm/group.h"
#include "convoy/comm/store.h"

namespace convoy::comm {

/// Gloo between the ranks at a store address, for host tensors. Throws CommunicationError.
std::shared_ptr<Engine> make_gloo_engine(const StoreAddress& point,
                                         const c10::intrusive_ptr<c10d::Store>& store);

/// A group over Gloo; tensors of a GPU travel through the host. On one host it uses the loopback
/// interface only; else GLOO_SOCKET_IFNAME or the interface of this host's name.
Group make_gloo_group(const StoreAddress& point, const c10::intrusive_ptr<c10d::Store>& store);

}  // namespace convoy::comm
