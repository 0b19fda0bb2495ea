#include "convoy/jinja/callable.h"

namespace convoy::jinja {

std::vector<const Value*> bind(std::string_view function, const Arguments& arguments,
                               std::initializer_list<const char*> parameters, size_t required) {
  std::vector<const Value*> out(parameters.size(), nullptr);
  if (arguments.positional.size() > parameters.size()) {
    trouble("{} takes at most {} arguments; got {}", function, parameters.size(),
            arguments.positional.size());
  }
  for (size_t i = 0; i < arguments.positional.size(); ++i) out[i] = &arguments.positional[i];
  for (const auto& [name, value] : arguments.named) {
    size_t i = 0;
    for (const char* parameter : parameters) {
      if (name == parameter) break;
      ++i;
    }
    if (i == parameters.size()) trouble("{} knows no argument '{}'", function, name);
    if (out[i] != nullptr) trouble("{} got '{}' twice", function, name);
    out[i] = &value;
  }
  for (size_t i = 0; i < required; ++i) {
    if (out[i] == nullptr) trouble("{} lacks its argument '{}'", function, parameters.begin()[i]);
  }
  return out;
}

}  // namespace convoy::jinja
