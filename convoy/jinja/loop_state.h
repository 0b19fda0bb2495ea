#pragma once

#include <optional>
#include <vector>

#include "convoy/jinja/value.h"

namespace convoy::jinja {

struct Node;
struct Scope;

/// Variable `loop` of a {% for %}.
struct LoopState {
  std::vector<Value> items;
  size_t index = 0;                                ///< of the item at hand, from 0
  int depth = 0;                                   ///< of recursive loops, from 0
  std::optional<std::vector<Value>> last_changed;  ///< values that loop.changed() saw
  const Node* recursive = nullptr;                 ///< its statement, where loop() may be called
  std::shared_ptr<Scope> scope;                    ///< around it

  /// loop.index, loop.last, loop.previtem ...; undefined for other names.
  Value attribute(std::string_view name) const;
};

}  // namespace convoy::jinja
