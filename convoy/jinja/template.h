#pragma once

#include <ctime>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "convoy/jinja/value.h"

namespace convoy::jinja {

struct Syntax;

struct RenderOptions {
  std::optional<std::tm>
      now;  ///< time of strftime_now(); a template that asks without it is refused
  RenderLimits limits;
};

/// Text of a template and the parts that {% generation %} made: bytes in ascending order, none
/// empty, none within another. transformers' return_assistant_tokens_mask is made of them.
struct Rendering {
  std::string text;
  std::vector<ByteRange> answers;
};

/// Chat template of Hugging Face, rendered as transformers renders it: jinja2 3.1.6 with
/// trim_blocks, lstrip_blocks, loop controls, {% generation %}, raise_exception, strftime_now and
/// json.dumps behind `tojson`, in an immutable sandbox. May be rendered from several threads at
/// once.
class Template {
 public:
  /// Throws FileError, with `name` and the line, for mistakes and for what is not supported.
  Template(std::string_view source, std::string name);
  Template(Template&&) noexcept;
  Template& operator=(Template&&) noexcept;
  ~Template();

  /// Whether it has a {% generation %}.
  bool marks_answers() const;

  /// `variables`: an object of messages, tools, add_generation_prompt, bos_token and so on. Throws
  /// UsageError, with the template's name and the line, where jinja2 would raise, where the
  /// template itself raises, and where a limit is reached.
  Rendering render(const OrderedJson& variables, const RenderOptions& options = {}) const;

 private:
  std::string name_;
  std::unique_ptr<const Syntax> syntax_;
};

}  // namespace convoy::jinja
