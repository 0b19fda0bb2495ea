#include "convoy/jinja/template.h"

#include "convoy/base/error.h"
#include "convoy/jinja/lexer.h"
#include "convoy/jinja/parser.h"
#include "convoy/jinja/renderer.h"

namespace convoy::jinja {

Template::Template(std::string_view source, std::string name) : name_(std::move(name)) {
  try {
    syntax_ = std::make_unique<const Syntax>(parse(source));
  } catch (const SyntaxTrouble& mistake) {
    fail<FileError>("jinja", "{}:{}: {}", name_, mistake.line(), mistake.what());
  }
}

Template::Template(Template&&) noexcept = default;
Template& Template::operator=(Template&&) noexcept = default;
Template::~Template() = default;

bool Template::marks_answers() const {
  return syntax_->has_generation;
}

Rendering Template::render(const OrderedJson& variables, const RenderOptions& options) const {
  Renderer renderer(*syntax_, options);
  try {
    return renderer.run(variables);
  } catch (const Trouble& mistake) {
    fail<UsageError>("jinja", "{}:{}: {}", name_, renderer.line(), mistake.what());
  }
}

}  // namespace convoy::jinja
