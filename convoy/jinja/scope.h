#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "convoy/jinja/value.h"

namespace convoy::jinja {

/// Variables of a block. A name that it does not know is looked up in the blocks around it.
struct Scope {
  std::shared_ptr<Scope> parent;
  std::vector<std::pair<std::string_view, Value>> variables;  ///< names are the syntax's own
  bool kept = false;  ///< a macro defined here may outlive the block

  void set(std::string_view name, Value value) {
    for (auto& [mine, old] : variables) {
      if (mine == name) {
        old = std::move(value);
        return;
      }
    }
    variables.emplace_back(name, std::move(value));
  }

  /// Number of variables here and around, of which a search may look at each.
  size_t size() const {
    size_t count = 0;
    for (const Scope* scope = this; scope != nullptr; scope = scope->parent.get()) {
      count += scope->variables.size();
    }
    return count;
  }

  const Value* find(std::string_view name) const {
    for (const Scope* scope = this; scope != nullptr; scope = scope->parent.get()) {
      for (const auto& [mine, value] : scope->variables) {
        if (mine == name) return &value;
      }
    }
    return nullptr;
  }
};

}  // namespace convoy::jinja
