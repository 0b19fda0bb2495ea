#pragma once

#include "convoy/comm/device.h"

// The host waits for numbers of a GPU here, in download() and in download_alone(): a wait that
// collectives under way on it hold up would have no end where another rank does not come (see
// finish_pending).
namespace convoy::comm {

/// Returns the number in a tensor of one element, wherever it lies.
template <class Number>
Number item(const at::Tensor& tensor) {
  return download(tensor).item<Number>();
}

/// Copies a tensor into one of the host of the same shape, for which the host waits.
void download_into(const at::Tensor& host, const at::Tensor& tensor);
/// Copies a tensor of the host into one of the same shape, wherever that lies; waits for no GPU.
void upload_into(const at::Tensor& tensor, const at::Tensor& host);

}  // namespace convoy::comm
