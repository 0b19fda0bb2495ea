#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <set>

#include "convoy/base/error.h"
#include "convoy/base/files.h"
#include "convoy/jinja/template.h"

namespace convoy::jinja {
namespace {

namespace fs = std::filesystem;

const fs::path kSource = CONVOY_SOURCE_DIR;

OrderedJson read_json(const std::string& name) {
  return OrderedJson::parse(read_file(kSource / "tests/jinja" / name));
}

/// NOW of make_fixtures.py: 2026-03-09 14:05:06, a Monday.
RenderOptions options() {
  RenderOptions out;
  std::tm now{};
  now.tm_year = 126, now.tm_mon = 2, now.tm_mday = 9, now.tm_hour = 14, now.tm_min = 5;
  now.tm_sec = 6, now.tm_wday = 1, now.tm_yday = 67;
  out.now = now;
  return out;
}

std::string answers_text(const Rendering& rendering) {
  std::string out;
  for (const ByteRange& span : rendering.answers) {
    out += fmt::format("{}[{},{}]", out.empty() ? "" : ",", span.begin, span.end);
  }
  return "[" + out + "]";
}

/// The error's text where rendering ends with one.
std::string trouble_of(const std::string& source,
                       const OrderedJson& variables = OrderedJson::object(),
                       const RenderOptions& with = options()) {
  try {
    Template(source, "chat.jinja").render(variables, with);
  } catch (const FileError& error) {
    return error.what();
  } catch (const UsageError& error) {
    return error.what();
  }
  return "";
}

TEST(Rendering, EqualsJinjasForEveryFeature) {
  int cases = 0;
  const OrderedJson fixtures = read_json("fixtures.json");
  const OrderedJson& variables = fixtures["variables"];
  for (const auto& each : fixtures["cases"]) {
    const auto& source = each["template"].get_ref<const std::string&>();
    SCOPED_TRACE(source);
    ++cases;
    if (each.contains("error")) {
      EXPECT_NE(trouble_of(source, variables), "");
      continue;
    }
    try {
      const Rendering got = Template(source, "case").render(variables, options());
      EXPECT_EQ(got.text, each["text"].get_ref<const std::string&>());
      EXPECT_EQ(answers_text(got), each["answers"].dump());
    } catch (const Error& error) {
      ADD_FAILURE() << error.what();
    }
  }
  EXPECT_GT(cases, 150);
}

/// hash_of() of make_fixtures.py.
std::string hash_of(const Rendering& rendering) {
  uint64_t value = 0xCBF29CE484222325;
  for (const char c : rendering.text + answers_text(rendering)) {
    value = (value ^ static_cast<unsigned char>(c)) * 0x100000001B3;
  }
  return fmt::format("{:016x}", value);
}

// Templates that call a filter which jinja2 has not, though only where a branch is taken.
const std::set<std::string> kRefused = {"llama_cpp/deepseek-ai-DeepSeek-V3.2.jinja",
                                        "llama_cpp/deepseek-ai-DeepSeek-V4-Flash-0731.jinja",
                                        "llama_cpp/deepseek-ai-DeepSeek-V4.jinja"};

TEST(Rendering, EqualsJinjasForFetchedTemplates) {
  const fs::path folder = kSource / "data/chat_templates";
  if (!fs::exists(folder / "complete"))
    GTEST_SKIP() << "scripts/fetch_chat_templates.py fetches them";
  const OrderedJson conversations = read_json("conversations.json");
  const OrderedJson templates = read_json("templates.json");
  for (const auto& [name, hashes] : templates.items()) {
    SCOPED_TRACE(name);
    std::string source = read_file(folder / name);
    if (kRefused.contains(name)) {
      EXPECT_NE(trouble_of(source).find("the filter 'from_json' is not supported"),
                std::string::npos);
      continue;
    }
    const Template made(source, name);
    for (size_t i = 0; i < conversations.size(); ++i) {
      std::string got = "error", trouble;
      std::string text;
      try {
        const Rendering rendering = made.render(conversations[i]["variables"], options());
        got = hash_of(rendering);
        text = rendering.text + answers_text(rendering);
      } catch (const UsageError& error) {
        trouble = error.what();
      }
      EXPECT_EQ(got, hashes[i].get_ref<const std::string&>())
          << conversations[i]["name"] << " (" << i << ") " << trouble;
      if (const char* outputs = std::getenv("CONVOY_OUTPUTS");
          outputs != nullptr && trouble.empty()) {
        std::string file = name;
        std::replace(file.begin(), file.end(), '/', '+');
        std::ofstream(fs::path(outputs) / (file + "." + std::to_string(i))) << text;
      }
    }
  }
}

TEST(Refusals, NameTheTemplateTheLineAndTheTrouble) {
  const auto refused = [](const std::string& source, const std::string& expected) {
    EXPECT_EQ(trouble_of(source), "[jinja] chat.jinja:" + expected);
  };
  refused("\n{{ x|urlize }}", "2: the filter 'urlize' is not supported");
  refused("{{ x is nice }}", "1: the test 'nice' is not supported");
  refused("a\n\n{% include 'x' %}", "3: the tag 'include' is not supported");
  refused("{{ 'x'.encode() }}", "1: the method 'encode' is not supported");
  refused("{{ x|map('nope') }}", "1: the filter 'nope' is not supported");
  refused("{{ x|selectattr('a', 'nope') }}", "1: the test 'nope' is not supported");
  refused("{{ cycler('a') }}", "1: 'cycler' is not supported");
  refused("{% if false %}{{ x|nope }}{% endif %}", "1: the filter 'nope' is not supported");
  refused("\n\n{{ raise_exception('odd roles') }}", "3: the template says: odd roles");
  refused("{{ a.b.c }}", "1: 'a' is undefined");
  refused("{% if x %}\n\na", "1: a block that begins here lacks its 'endif'");
  EXPECT_EQ(trouble_of("{{ strftime_now('%Y') }}", OrderedJson::object(), RenderOptions{}),
            "[jinja] chat.jinja:1: it asks for the time with strftime_now(), which is not given");
}

TEST(Limits, EndHostileTemplates) {
  RenderOptions few = options();
  few.limits.max_steps = 1'000'000;
  const auto ends = [&](const std::string& source) {
    EXPECT_NE(trouble_of(source, OrderedJson::object(), few), "") << source.substr(0, 100);
  };
  const auto times = [](int count, const std::string& text) {
    std::string out;
    for (int i = 0; i < count; ++i) out += text;
    return out;
  };
  ends("{{ 'a' * 100000000000 }}");
  ends("{{ [0] * 100000000000 }}");
  ends("{{ '%1000000000d' % 1 }}");
  ends("{{ '{:1000000000}'.format(1) }}");
  ends("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}");
  ends("{% macro f() %}{{ f() }}{{ f() }}{% endmacro %}{{ f() }}");
  ends("{% set r = range(100000) %}{% for a in r %}{% for b in r %}{% endfor %}{% endfor %}");
  ends(
      "{% set ns = namespace(x='a') %}{% for a in range(1000) %}{% set ns.x = ns.x + ns.x %}{% "
      "endfor %}");
  ends(
      "{% set ns = namespace(x=[]) %}{% for a in range(1000) %}{% set ns.x = [ns.x, ns.x] %}{% "
      "endfor %}");
  ends(
      "{% set ns = namespace(x=[]) %}{% for a in range(100) %}{% set ns.x = [ns.x, ns.x] %}{% "
      "endfor %}{{ ns.x }}");
  ends("{% set ns = namespace() %}{% set ns.a = ns %}{{ ns }}");
  ends("{{ " + times(100000, "(") + "1" + times(100000, ")") + " }}");
  ends("{{ 1" + times(100000, " + 1") + " }}");
  ends("{{ " + times(100000, "-") + "1 }}");
  ends("{{ " + times(100000, "not ") + "1 }}");
  ends("{{ x" + times(100000, "|list") + " }}");
  ends("{{ x" + times(100000, "[0]") + " }}");
  ends(times(100000, "{% if x %}"));
  ends(
      "{% set ns = namespace(f=none) %}{% for i in range(100000) %}{% set ns.f = 'a'.split %}{% "
      "set ns.f = [ns.f] %}{% set ns.f = [ns.f].index %}"
      "{% endfor %}{{ ns.f() }}");
}

TEST(Limits, FreeWhatRefersToItself) {
  // A chain of a hundred thousand values must not be freed by a hundred thousand calls in one
  // another.
  const Rendering got = Template(
                            "{% set ns = namespace(last=none) %}{% for i in range(100000) %}{% set "
                            "ns.last = namespace(last=ns.last) %}"
                            "{% endfor %}{% set ns.last = ns %}{% set ns.f = namespace(l=ns) %}ok",
                            "chain")
                            .render(OrderedJson::object());
  EXPECT_EQ(got.text, "ok");
}

}  // namespace
}  // namespace convoy::jinja
