#include "convoy/nn/attention/cudnn_attention.h"

#include <ATen/ATen.h>
#include <ATen/Context.h>
#include <ATen/core/grad_mode.h>

#include <map>
#include <mutex>
#include <vector>

#include "convoy/comm/device.h"
#include "convoy/gpu/failures.h"

namespace convoy::nn {

namespace {

/// Cache of the shapes that have a plan, which decides whether one more may get one.
class Plans {
 public:
  using Key = std::vector<int64_t>;

  bool take(const Key& key) {
    constexpr size_t kMost = 8;
    const std::lock_guard lock(mutex_);
    if (known_.size() < kMost) known_.try_emplace(key, true);
    const auto found = known_.find(key);
    return found != known_.end() && found->second;
  }

  void fail(const Key& key) {
    const std::lock_guard lock(mutex_);
    known_[key] = false;
  }

 private:
  std::mutex mutex_;
  std::map<Key, bool> known_;  // to whether they do
};

/// Key by which torch caches plans, as far as it differs here.
Plans::Key key_of(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, bool causal) {
  Plans::Key key{causal ? 1 : 0, q.get_device(), static_cast<int64_t>(q.scalar_type())};
  for (const auto* tensor : {&q, &k, &v}) {
    key.insert(key.end(), tensor->sizes().begin(), tensor->sizes().end());
    key.insert(key.end(), tensor->strides().begin(), tensor->strides().end());
  }
  return key;
}

bool fits(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v) {
  constexpr int kHopper = 9;
  constexpr int64_t kShort = 128, kWidest = 128;
  if (!q.is_cuda() || !q.requires_grad() || !at::GradMode::is_enabled()) return false;
  const auto dtype = q.scalar_type();
  if (dtype != at::kBFloat16 && dtype != at::kHalf) return false;
  if (k.scalar_type() != dtype || v.scalar_type() != dtype) return false;
  if (q.size(2) < kShort || q.size(2) != k.size(2)) return false;
  if (q.size(3) % 8 != 0 || q.size(3) > kWidest || v.size(3) != q.size(3)) return false;
  // Deterministic runs take no fused attention.
  if (!at::globalContext().userEnabledFlashSDP() || !at::globalContext().hasCuDNN()) return false;
  return comm::compute_capability(q.device()) >= kHopper;
}

}  // namespace

at::Tensor cudnn_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                           bool causal, double scale) {
  static Plans plans;
  if (!fits(q, k, v)) return {};
  const auto key = key_of(q, k, v, causal);
  if (!plans.take(key)) return {};
  try {
    return std::get<0>(at::_scaled_dot_product_cudnn_attention(
        q, k, v, /*attn_bias=*/std::nullopt, /*compute_log_sumexp=*/true, /*dropout_p=*/0.0, causal,
        /*return_debug_mask=*/false, scale));
  } catch (const c10::OutOfMemoryError&) {
    throw;
  } catch (const c10::Error& error) {
    gpu::check_device(q.device());
    plans.fail(key);
    gpu::add_failed_kernel("cudnn_attention", error);
    return {};
  }
}

}  // namespace convoy::nn
