#include "convoy/jinja/loop_state.h"

namespace convoy::jinja {

Value LoopState::attribute(std::string_view name) const {
  const auto at = static_cast<int64_t>(index), count = static_cast<int64_t>(items.size());
  if (name == "index") return Value(at + 1);
  if (name == "index0") return Value(at);
  if (name == "revindex") return Value(count - at);
  if (name == "revindex0") return Value(count - at - 1);
  if (name == "first") return Value(at == 0);
  if (name == "last") return Value(at + 1 == count);
  if (name == "length") return Value(count);
  if (name == "depth") return Value(int64_t{depth} + 1);
  if (name == "depth0") return Value(int64_t{depth});
  if (name == "previtem") {
    return index > 0 ? items[index - 1] : Value::undefined("there is no previous item");
  }
  if (name == "nextitem") {
    return at + 1 < count ? items[index + 1] : Value::undefined("there is no next item");
  }
  return Value::undefined(fmt::format("'loop' has no attribute '{}'", name));
}

}  // namespace convoy::jinja
