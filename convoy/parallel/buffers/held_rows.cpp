#include "convoy/parallel/buffers/held_rows.h"

#include <ATen/ATen.h>

#include <cstring>
#include <utility>

#include "convoy/base/error.h"

namespace convoy::parallel {

HeldRows::HeldRows(at::Tensor rows) : rows_(std::move(rows)) {
  internal_check(rows_.is_cpu() && rows_.is_contiguous() && rows_.dim() == 2, "parallel",
                 "rows to hold lie one after the other on the host");
}

at::Tensor HeldRows::take(int64_t first, int64_t count) {
  auto out = at::empty({count, rows_.size(1)}, rows_.options());
  const auto bytes = static_cast<size_t>(rows_.size(1)) * rows_.element_size();
  const auto* from = static_cast<const char*>(rows_.const_data_ptr());
  auto* to = static_cast<char*>(out.mutable_data_ptr());
  const std::lock_guard lock(mutex_);
  internal_check(first >= taken_, "parallel", "rows are taken in ascending order");
  taken_ = first + count;
  // Skips rows that were kept, which another thread may be changing now.
  int64_t begin = first;
  const auto copy_until = [&](int64_t row) {
    std::memcpy(to + static_cast<size_t>(begin - first) * bytes,
                from + static_cast<size_t>(begin) * bytes,
                static_cast<size_t>(row - begin) * bytes);
    begin = row + 1;
  };
  for (int64_t row = first; row < taken_ && !kept_.empty(); ++row) {
    const auto kept = kept_.find(row);
    if (kept == kept_.end()) continue;
    copy_until(row);
    std::memcpy(to + static_cast<size_t>(row - first) * bytes, kept->second, bytes);
  }
  if (begin < taken_) copy_until(taken_);
  return out;
}

void HeldRows::keep(const at::Tensor& index) {
  const auto* rows = index.const_data_ptr<int64_t>();
  const std::lock_guard lock(mutex_);
  std::vector<int64_t> changed;
  for (int64_t i = 0; i < index.numel(); ++i) {
    if (rows[i] >= taken_ && !kept_.contains(rows[i])) changed.push_back(rows[i]);
  }
  if (changed.empty()) return;
  copies_.push_back(rows_.index_select(0, at::tensor(changed, at::kLong)));
  const auto* copy = static_cast<const char*>(copies_.back().const_data_ptr());
  const auto bytes = static_cast<size_t>(rows_.size(1)) * rows_.element_size();
  for (size_t i = 0; i < changed.size(); ++i) kept_[changed[i]] = copy + i * bytes;
}

int64_t HeldRows::num_kept() const {
  const std::lock_guard lock(mutex_);
  return std::ssize(kept_);
}

std::shared_ptr<HeldRows> ChangingRows::hold() {
  auto out = std::make_shared<HeldRows>(rows_);
  holders_.push_back(out);
  return out;
}

void ChangingRows::about_to_change(const at::Tensor& index) {
  std::erase_if(holders_, [](const auto& holder) { return holder.expired(); });
  for (const auto& holder : holders_) {
    if (const auto held = holder.lock()) held->keep(index);
  }
}

}  // namespace convoy::parallel
