#include "convoy/launch/report_failure.h"

#include <fmt/format.h>

#include <cstdio>
#include <string>
#include <vector>

#include "convoy/base/error.h"
#include "convoy/base/text.h"
#include "convoy/launch/environment.h"
#include "convoy/launch/error_file.h"

namespace convoy::launch {

namespace {

struct Kind {
  const char* name;
  int code;
};

Kind kind_of(const std::exception& error) {
  if (dynamic_cast<const UsageError*>(&error)) return {"UsageError", 2};
  if (dynamic_cast<const CommunicationError*>(&error)) return {"CommunicationError", 3};
  if (dynamic_cast<const InternalError*>(&error)) return {"InternalError", 70};
  if (dynamic_cast<const FileError*>(&error)) return {"FileError", 1};
  if (dynamic_cast<const NumericError*>(&error)) return {"NumericError", 1};
  return {"Exception", 1};
}

RankEnvironment own_environment() {
  try {
    return detect_environment();
  } catch (const std::exception&) {  // which may be what failed
    return {};
  }
}

}  // namespace

int report_failure(const std::exception& error) noexcept try {
  const auto [name, code] = kind_of(error);
  const bool own = dynamic_cast<const Error*>(&error) != nullptr;
  const auto message = own ? std::string(error.what()) : first_line(error.what());
  const auto* of_ranks = dynamic_cast<const CommunicationError*>(&error);
  const auto here = own_environment();
  write_error_file(here, name, message, of_ranks ? of_ranks->missing() : std::vector<int>(), code);
  const auto who = here.world_size > 1 ? fmt::format(" on rank {} of {} ({})", here.rank,
                                                     here.world_size, host_name())
                                       : "";
  std::fputs(fmt::format("error{}: {}\n", who, printable_lines(message)).c_str(), stderr);
  return code;
} catch (...) {
  return 1;
}

}  // namespace convoy::launch
