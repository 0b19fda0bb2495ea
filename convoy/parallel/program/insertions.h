#pragma once

#include <algorithm>
#include <utility>
#include <vector>

#include "convoy/parallel/program/program.h"

namespace convoy::parallel {

/// Instructions to put into a program, by the position of the one that they come before. Those that
/// give memory back come before those that take some.
class Insertions {
 public:
  void give(size_t before, const Instruction& i) { all_.push_back({before, false, i}); }
  void take(size_t before, const Instruction& i) { all_.push_back({before, true, i}); }

  Program into(Program program) {
    if (all_.empty()) return program;
    std::stable_sort(all_.begin(), all_.end(), [](const auto& a, const auto& b) {
      return std::pair(a.before, a.takes) < std::pair(b.before, b.takes);
    });
    Program out;
    out.reserve(program.size() + all_.size());
    auto next = all_.begin();
    for (size_t at = 0; at <= program.size(); ++at) {
      for (; next != all_.end() && next->before == at; ++next) out.push_back(next->instruction);
      if (at < program.size()) out.push_back(program[at]);
    }
    return out;
  }

 private:
  struct One {
    size_t before;
    bool takes;
    Instruction instruction;
  };
  std::vector<One> all_;
};

}  // namespace convoy::parallel
