#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/record_function.h>

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace convoy {

/// Whether a call of an operation of torch counts, by its name and those of its inputs that are on
/// a GPU.
using Counts = std::function<bool(std::string_view name, const std::vector<at::Tensor>& inputs)>;

/// Whether it is one of torch's operations, and not a step of autograd.
inline bool is_operation(const at::RecordFunction& call) {
  return std::string_view(call.name()).starts_with("aten::");
}

/// Number of calls that count, in all threads, while `work` runs. Calls within others do not: a
/// simulated device makes such.
inline int64_t calls_of(const Counts& counts, const std::function<void()>& work) {
  static std::atomic<int64_t> calls;
  static Counts counted;
  static thread_local int depth;
  calls = 0;
  counted = counts;
  const auto begin = [](const at::RecordFunction& call) -> std::unique_ptr<at::ObserverContext> {
    if (!is_operation(call) || depth++ > 0) return nullptr;
    std::vector<at::Tensor> inputs;
    for (const auto& input : call.inputs()) {
      if (input.isTensor() && input.toTensor().defined() && input.toTensor().is_cuda()) {
        inputs.push_back(input.toTensor());
      }
    }
    if (!inputs.empty() && counted(call.name(), inputs)) ++calls;
    return nullptr;
  };
  const auto end = [](const at::RecordFunction& call, at::ObserverContext*) {
    if (is_operation(call)) --depth;
  };
  const auto handle = at::addGlobalCallback(
      at::RecordFunctionCallback(begin, end).needsInputs(true).scopes({at::RecordScope::FUNCTION}));
  work();
  at::removeCallback(handle);
  return calls;
}

/// Number of calls of one operation.
inline int64_t calls_of(const char* operation, const std::function<void()>& work) {
  return calls_of([operation](std::string_view name, const auto&) { return name == operation; },
                  work);
}

}  // namespace convoy
