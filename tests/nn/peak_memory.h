#pragma once

#include <c10/core/Allocator.h>
#include <c10/util/ThreadLocalDebugInfo.h>

#include <algorithm>

namespace convoy::nn {

/// Counts what torch allocates on the host in this thread while it lives.
class PeakMemory {
 public:
  PeakMemory() : guard_(c10::DebugInfoKind::PROFILER_STATE, watch_) {}

  int64_t peak() const { return watch_->peak; }  ///< bytes beyond those at the start
  int64_t held() const { return watch_->now; }

 private:
  struct Watch : c10::MemoryReportingInfoBase {
    void reportMemoryUsage(void*, int64_t size, size_t, size_t, c10::Device device) override {
      if (!device.is_cpu()) return;
      now += size;
      peak = std::max(peak, now);
    }
    bool memoryProfilingEnabled() const override { return true; }
    int64_t now = 0, peak = 0;
  };

  std::shared_ptr<Watch> watch_ = std::make_shared<Watch>();
  c10::DebugInfoGuard guard_;
};

}  // namespace convoy::nn
