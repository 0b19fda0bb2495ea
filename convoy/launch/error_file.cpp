#include "convoy/launch/error_file.h"

#include <unistd.h>

#include <chrono>

#include "convoy/base/activity.h"
#include "convoy/base/error.h"
#include "convoy/base/files.h"
#include "convoy/base/json.h"
#include "convoy/base/json_number.h"
#include "convoy/base/text.h"
#include "convoy/base/timing.h"

namespace convoy::launch {
namespace {

double number_of(const Json& json, const char* key) {
  return json.contains(key) ? finite_number(json[key]).value_or(0) : 0;
}

/// Reads the form of torch's `@record`: {"message": {"message": "...", "extraInfo": {"timestamp":
/// "..."}}}.
void read_torch_form(const Json& message, RankError& out) {
  if (message.is_string()) {
    out.error = message.get<std::string>();
  } else if (message.is_object()) {
    out.error = text_of(message, "message");
    if (message.contains("extraInfo")) {
      parse_number(text_of(message["extraInfo"], "timestamp"), out.time);
    }
  }
  const size_t colon = out.error.find(':');
  if (colon != std::string::npos && out.error.find(' ') > colon)
    out.kind = out.error.substr(0, colon);
}

}  // namespace

double wall_time() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

double steady_time() {
  static const double start = wall_time();
  static const auto since = std::chrono::steady_clock::now();
  return start + seconds_since(since);
}

bool write_error_file(const RankEnvironment& environment, std::string_view kind,
                      std::string_view message, const std::vector<int>& missing,
                      int exit_code) noexcept {
  try {
    if (environment.error_file.empty()) return false;
    const auto earlier = read_error_file(environment.error_file);
    if (earlier && earlier->pid == ::getpid()) return true;
    const double now = wall_time();
    const Activity activity = current_activity();
    const Json json = {{"rank", environment.rank},
                       {"host", host_name()},
                       {"pid", ::getpid()},
                       {"time", now},
                       {"kind", kind},
                       {"error", message},
                       {"exit_code", exit_code},
                       {"operation", activity.operation},
                       {"step", activity.step},
                       {"missing", missing},
                       {"message", message},
                       {"timestamp", static_cast<int64_t>(now)}};
    // Bytes that are no UTF-8 (a file name, say) must not lose the reason.
    write_file(environment.error_file, json.dump(1, ' ', false, Json::error_handler_t::replace));
    return true;
  } catch (...) {
    return false;
  }
}

std::optional<RankError> read_error_file(const std::filesystem::path& path) {
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(path, ignored)) return std::nullopt;
  try {
    const Json json = parse_json(read_file(path), path.string());
    if (!json.is_object()) return std::nullopt;
    RankError out;
    out.rank = static_cast<int>(number_of(json, "rank"));
    out.host = text_of(json, "host");
    out.pid = static_cast<int64_t>(number_of(json, "pid"));
    out.time = number_of(json, "time");
    out.kind = text_of(json, "kind");
    out.error = text_of(json, "error");
    out.operation = text_of(json, "operation");
    out.exit_code = static_cast<int>(number_of(json, "exit_code"));
    out.step = static_cast<int64_t>(number_of(json, "step"));
    if (json.contains("missing") && json["missing"].is_array()) {
      for (const Json& rank : json["missing"]) {
        if (const auto number = whole_number<int>(rank)) out.missing.push_back(*number);
      }
    }
    if (out.error.empty() && json.contains("message")) read_torch_form(json["message"], out);
    if (out.error.empty()) return std::nullopt;
    return out;
  } catch (const FileError&) {
    return std::nullopt;
  }
}

}  // namespace convoy::launch
