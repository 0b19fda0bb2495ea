#include <optional>
#include <string>
#include <vector>

#include "convoy/base/options.h"
#include "tests/fuzz/fuzz.h"

namespace {

/// Options of every kind.
struct Everything {
  bool flag = false;
  int64_t count = 3;
  double rate = 0.5;
  std::string name = "a";
  std::vector<std::string> list{"x", "y"};
  std::optional<int64_t> limit;
  std::optional<double> part;
  convoy::OptionTable table;

  Everything() {
    table.add("train", "flag", flag, "a flag");
    table.add("train", "count", count, "a count").at_least(0).alias("number");
    table.add("train", "rate", rate, "a rate").within(0, 1);
    table.add("model", "name", name, "a name").choice({"a", "b", "c"});
    table.add("model", "list", list, "a list");
    table.add("model", "limit", limit, "a limit").at_least(1);
    table.add("data", "part", part, "a part");
  }
};

}  // namespace

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  return convoy::fuzz::expect_plain_errors(data, size, [](std::string_view text) {
    Everything first, second;
    first.table.read_toml_text(text, "fuzz");
    first.table.check();
    const auto toml = first.table.to_toml();
    second.table.read_toml_text(toml, "again");
    convoy::internal_check(second.table.to_toml() == toml, "fuzz",
                           "options changed on their way through their own TOML");
  });
}
