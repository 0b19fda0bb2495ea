#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

// Shapes: K rows, D their width.
namespace convoy::parallel {

/// Rows [K, D] on the host as they were when this was made, for a thread that takes them, in
/// ascending order, while another one changes them. A row is copied only where it is about to
/// change and was not taken yet: nothing of the table's size is.
class HeldRows {
 public:
  explicit HeldRows(at::Tensor rows);

  /// Rows first .. first + count - 1, [count, D]: a copy. Those below need not be kept any longer.
  at::Tensor take(int64_t first, int64_t count);
  /// Copies the rows at `index` [n] int64 that were neither taken nor copied yet. The thread that
  /// changes rows calls this before it does.
  void keep(const at::Tensor& index);

  int64_t num_kept() const;

 private:
  at::Tensor rows_;
  mutable std::mutex mutex_;
  int64_t taken_ = 0;                              // rows below were
  std::vector<at::Tensor> copies_;                 // [n, D], of each time that rows changed
  std::unordered_map<int64_t, const char*> kept_;  // [row] in one of the copies
};

/// Rows of a tensor that change now and then, and who holds them meanwhile. One thread's.
class ChangingRows {
 public:
  explicit ChangingRows(at::Tensor rows) : rows_(std::move(rows)) {}

  /// Returns the rows as they are now, kept until the last of the pointers is gone.
  std::shared_ptr<HeldRows> hold();
  void about_to_change(const at::Tensor& index);

 private:
  at::Tensor rows_;
  std::vector<std::weak_ptr<HeldRows>> holders_;
};

}  // namespace convoy::parallel
