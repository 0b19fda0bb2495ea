#include "convoy/comm/broadcast_together.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <map>
#include <utility>

namespace convoy::comm {

void broadcast_together(const Group& group, const std::vector<at::Tensor>& tensors, int root,
                        const std::string& label) {
  if (group.size() == 1) return;
  const at::NoGradGuard no_grad;
  std::map<std::pair<std::string, at::ScalarType>, std::vector<at::Tensor>> alike;
  for (const auto& tensor : tensors) {
    if (tensor.numel() == 0) continue;
    alike[{tensor.device().str(), tensor.scalar_type()}].push_back(tensor.detach());
  }
  for (const auto& [kind, some] : alike) {
    std::vector<at::Tensor> parts;
    for (const auto& tensor : some) parts.push_back(tensor.reshape({-1}));
    const auto flat = at::cat(parts);
    group.broadcast(flat, root, label);
    if (group.rank() == root) continue;
    int64_t begin = 0;
    for (const auto& tensor : some) {
      tensor.copy_(flat.narrow(0, begin, tensor.numel()).view(tensor.sizes()));
      begin += tensor.numel();
    }
  }
}

}  // namespace convoy::comm
