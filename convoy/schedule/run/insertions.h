#pragma once

#include <map>

#include "convoy/schedule/run/program.h"

namespace convoy::schedule {

/// Instructions to put into a program, by the position of the one that they come before. Those that
/// give memory back come before those that take some.
class Insertions {
 public:
  void give(size_t before, const Instruction& i) { gives_.emplace(before, i); }
  void take(size_t before, const Instruction& i) { takes_.emplace(before, i); }

  Program into(const Program& program) const {
    Program out;
    for (size_t at = 0; at <= program.size(); ++at) {
      for (const auto* all : {&gives_, &takes_}) {
        auto [one, end] = all->equal_range(at);
        for (; one != end; ++one) out.push_back(one->second);
      }
      if (at < program.size()) out.push_back(program[at]);
    }
    return out;
  }

 private:
  std::multimap<size_t, Instruction> gives_, takes_;
};

}  // namespace convoy::schedule
