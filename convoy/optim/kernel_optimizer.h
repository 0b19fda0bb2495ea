#pragma once

#include <vector>

#include "convoy/optim/update_kernel.h"

namespace convoy::optim {

/// An optimizer with one pass over a stretch on the host, a kernel of update.cu for GPUs, and
/// operations of torch where that kernel cannot run.
class KernelOptimizer : public Optimizer {
 public:
  void update(const FlatRange& stretch, const StepNumbers& numbers) const final;
  void update_all(const std::vector<FlatRange>& stretches, const StepNumbers& numbers) const final;
  bool reads_device_state(const std::vector<FlatRange>& stretches) const override;

 protected:
  virtual void update_on_host(const FlatRange& stretch, const StepNumbers& numbers) const = 0;
  virtual UpdateKernel& kernel() const = 0;
  /// Calls kernel().run() with the factors of a step.
  virtual void update_by_kernel(const std::vector<FlatRange>& stretches,
                                const StepNumbers& numbers) const = 0;
  virtual void update_by_operations(const std::vector<FlatRange>& stretches,
                                    const StepNumbers& numbers) const = 0;

 private:
  bool has_kernel_for(const std::vector<FlatRange>& stretches) const;
};

}  // namespace convoy::optim
