#include "convoy/planner/cost/operators.h"

#include <ATen/ATen.h>
#include <ATen/core/function_schema.h>
#include <ATen/record_function.h>

#include <chrono>
#include <memory>
#include <utility>

#include "convoy/base/timing.h"

namespace convoy::planner {

namespace {

using Clock = std::chrono::steady_clock;

struct Range {
  const char* begin = nullptr;
  const char* end = nullptr;
  bool meets(const Range& other) const { return begin < other.end && other.begin < end; }
  bool holds(const Range& other) const { return begin <= other.begin && other.end <= end; }
};

Range range_of(const at::Tensor& tensor) {
  if (!tensor.defined() || !tensor.has_storage() || tensor.numel() == 0) return {};
  int64_t last = 0;
  for (int64_t d = 0; d < tensor.dim(); ++d) last += (tensor.size(d) - 1) * tensor.stride(d);
  const auto* begin = static_cast<const char*>(tensor.const_data_ptr());
  return {begin, begin + (last + 1) * static_cast<int64_t>(tensor.element_size())};
}

template <class Add>
void each_range(const c10::IValue& value, const Add& add) {
  if (value.isTensor()) add(range_of(value.toTensor()));
  if (!value.isTensorList()) return;
  for (const auto& tensor : value.toTensorVector()) add(range_of(tensor));
}

/// Memory range that an operator wrote.
struct Written {
  Range range;
  double in_a_row = 0;  // seconds from the first of those that the operator needs to its end
};

/// Records the operators of one thread, in their order.
class Recorder {
 public:
  /// Begins an operator; one that another operator calls is part of that one.
  void begin(const at::RecordFunction& function) {
    if (++depth_ > 1) return;
    needed_ = 0;
    changed_.clear();
    const auto schema = function.operator_schema();
    const auto inputs = function.inputs();
    for (size_t i = 0; i < inputs.size(); ++i) {
      const auto* alias = schema ? schema->arguments().at(i).alias_info() : nullptr;
      const bool writes = alias != nullptr && alias->isWrite();
      each_range(inputs[i], [&](const Range& range) {
        read(range);
        if (writes) changed_.push_back(range);
      });
    }
    began_ = Clock::now();
  }

  void end(const at::RecordFunction& function) {
    if (--depth_ > 0) return;
    const double took = seconds_since(began_), in_a_row = needed_ + took;
    for (const auto& range : changed_) write(range, in_a_row);
    const auto schema = function.operator_schema();
    const auto outputs = function.outputs();
    for (size_t i = 0; i < outputs.size(); ++i) {
      const bool is_view =
          schema && i < schema->returns().size() && schema->returns()[i].alias_info() != nullptr;
      if (is_view) continue;
      each_range(outputs[i], [&](const Range& range) { write(range, in_a_row); });
    }
    graph_.in_a_row = std::max(graph_.in_a_row, in_a_row);
    inside_ += took;
    ++graph_.operators;
  }

  OperatorGraph finish(double seconds) {
    graph_.seconds = seconds;
    graph_.outside = std::max(0.0, seconds - inside_);
    return graph_;
  }

 private:
  /// Notes a read: several operators may have written a part of the range each.
  void read(const Range& range) {
    for (const auto& before : written_) {
      if (before.range.meets(range)) needed_ = std::max(needed_, before.in_a_row);
    }
  }

  /// Notes a write: earlier content of the range is gone, or the operator has read it.
  void write(const Range& range, double in_a_row) {
    if (range.begin == nullptr) return;
    std::erase_if(written_, [&](const Written& before) { return range.holds(before.range); });
    written_.push_back({range, in_a_row});
  }

  OperatorGraph graph_;
  std::vector<Written> written_;
  std::vector<Range> changed_;
  int depth_ = 0;
  double needed_ = 0, inside_ = 0;
  Clock::time_point began_;
};

thread_local Recorder* recorder = nullptr;

std::unique_ptr<at::ObserverContext> begin(const at::RecordFunction& function) {
  if (recorder != nullptr) recorder->begin(function);
  return nullptr;
}

void end(const at::RecordFunction& function, at::ObserverContext*) {
  if (recorder != nullptr) recorder->end(function);
}

/// Scope in which operators are recorded.
class Recording {
 public:
  explicit Recording(Recorder& to)
      : handle_(at::addThreadLocalCallback(at::RecordFunctionCallback(begin, end)
                                               .needsInputs(true)
                                               .needsOutputs(true)
                                               .scopes({at::RecordScope::FUNCTION}))) {
    recorder = &to;
  }
  ~Recording() {
    recorder = nullptr;
    at::removeCallback(handle_);
  }
  Recording(const Recording&) = delete;
  Recording& operator=(const Recording&) = delete;

 private:
  at::CallbackHandle handle_;
};

}  // namespace

std::vector<OperatorGraph> operator_graphs(const nn::BlockList& blocks,
                                           const parallel::MicroBatch& batch,
                                           ProfileOptions options) {
  std::vector<OperatorGraph> out(blocks.size());
  options.again = [&](size_t block, size_t like, const std::function<void()>& run) {
    if (block != like) {
      out[block] = out[like];
      return;
    }
    Recorder all;
    const Recording recording(all);
    const auto began = Clock::now();
    run();
    out[block] = all.finish(seconds_since(began));
  };
  profile(blocks, batch, options);
  return out;
}

}  // namespace convoy::planner
