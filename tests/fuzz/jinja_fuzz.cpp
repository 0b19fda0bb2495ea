#include "convoy/jinja/template.h"
#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  return convoy::fuzz::expect_plain_errors(data, size, [](std::string_view source) {
    using namespace convoy::jinja;  // NOLINT(google-build-using-namespace)
    static const OrderedJson variables = OrderedJson::parse(R"({
      "messages": [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Gr\u00fc\u00dfe \ud83d\ude00", "n": [1, 2.5, null, true]},
        {"role": "assistant", "content": "", "tool_calls": [
          {"type": "function", "id": "a1", "function": {"name": "f", "arguments": {"x": 1e16}}}]}],
      "tools": [{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}],
      "add_generation_prompt": true, "bos_token": "<s>", "eos_token": "</s>"})");
    RenderOptions options;
    options.now.emplace();
    options.limits = {.max_steps = 20'000, .max_bytes = 1 << 20, .max_depth = 1000};
    Template(source, "fuzz").render(variables, options);
  });
}
