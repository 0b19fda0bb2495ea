#include "cli/decimal.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <cstdint>
#include <string>
#include <string_view>

#include "convoy/base/text.h"

namespace convoy::cli {

namespace {

bool read_decimal(std::string_view text, int64_t& out) {
  return parse_number(text, out);
}
bool read_decimal(std::string_view text, uint64_t& out) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  return error == std::errc() && end == text.data() + text.size();
}
bool read_decimal(std::string_view text, double& out) {
  return parse_number(text, out) && !std::isnan(out);
}

template <class Number>
void make_decimal(CLI::Option& option, const char* expected) {
  option.transform([](const std::string& text) {
    Number number{};
    return read_decimal(text, number) ? fmt::format("{}", number) : text;
  });
  // Runs after the option's own checks, whose messages say more.
  option.check(CLI::Validator(
      [expected](std::string& text) {
        Number number{};
        return read_decimal(text, number) ? ""
                                          : fmt::format("got '{}'; expected {}", text, expected);
      },
      ""));
}

}  // namespace

void read_decimals(CLI::App& app) {
  for (auto* option : app.get_options([](CLI::Option*) { return true; })) {
    const auto type = option->get_type_name();
    if (type.starts_with("INT")) make_decimal<int64_t>(*option, "a whole number below 2^63");
    if (type.starts_with("UINT"))
      make_decimal<uint64_t>(*option, "a whole number from 0 to 2^64-1");
    if (type.starts_with("FLOAT")) make_decimal<double>(*option, "a number");
  }
  for (auto* below : app.get_subcommands([](CLI::App*) { return true; })) read_decimals(*below);
}

}  // namespace convoy::cli
