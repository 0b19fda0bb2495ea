#include "convoy/comm/to_host.h"

#include <ATen/ATen.h>

#include "convoy/comm/pending.h"

namespace convoy::comm {

void download_into(const at::Tensor& host, const at::Tensor& tensor) {
  if (!tensor.is_cpu()) finish_pending();
  host.copy_(tensor);
}

}  // namespace convoy::comm
