#include "convoy/comm/to_host.h"

#include <ATen/ATen.h>

#include "convoy/comm/pending.h"

namespace convoy::comm {

void download_into(const at::Tensor& host, const at::Tensor& tensor) {
  if (!tensor.is_cpu()) finish_pending();
  host.copy_(tensor);
}

void upload_into(const at::Tensor& tensor, const at::Tensor& host) {
  if (tensor.is_cuda() && host.is_cpu()) {
    tensor.copy_(host.pin_memory(), /*non_blocking=*/true);
  } else {
    tensor.copy_(host);
  }
}

}  // namespace convoy::comm
