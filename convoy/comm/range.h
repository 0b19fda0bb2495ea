#pragma once

#include <ATen/record_function.h>

#include <string>

namespace convoy::comm {

/// A named stretch of time of this thread, for torch's profiler (`--trace`). `name` is a function
/// that gives the name; it is not called while nobody traces.
class Range {
 public:
  template <class Name>
  explicit Range(const Name& name) : record_(at::RecordScope::USER_SCOPE) {
    if (record_.isActive()) record_.before(std::string(name()));
  }

 private:
  at::RecordFunction record_;
};

}  // namespace convoy::comm
