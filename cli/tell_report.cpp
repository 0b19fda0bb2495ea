#include "cli/tell_report.h"

#include <fmt/format.h>
#include <torch/version.h>

#include "convoy/base/files.h"
#include "convoy/machine/host.h"

namespace convoy::cli {

void tell_report(Json json, const std::string& text, const std::string& output, bool as_json) {
  const auto machine = machine::machine_lines({{"torch", TORCH_VERSION}});
  json["machine"] = machine;
  if (!output.empty()) write_file(output, json.dump(1) + "\n");
  if (as_json) {
    fmt::print("{}\n", json.dump(2));
    return;
  }
  for (const auto& line : machine) fmt::print("{}\n", line);
  fmt::print("{}", text);
}

}  // namespace convoy::cli
