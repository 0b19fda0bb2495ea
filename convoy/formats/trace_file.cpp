#include "convoy/formats/trace_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <optional>
#include <type_traits>
#include <utility>

#include "convoy/base/error.h"
#include "convoy/base/json_number.h"

namespace convoy::formats {
namespace fs = std::filesystem;

namespace {

template <class T>
T number(const Json& object, const char* key) {
  const Json& value = object.at(key);
  std::optional<T> out;
  if constexpr (std::is_integral_v<T>) {
    out = whole_number<T>(value);
  } else {
    out = finite_number(value);
  }
  if (!out) throw Json::type_error::create(302, fmt::format("{} is no number", key), &value);
  return *out;
}

}  // namespace

TraceFile read_trace(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) fail<FileError>("formats", "cannot read the trace {}", path.string());
  // Torch's operations, which are most of it, are dropped as they are read.
  const auto is_kept = [](int depth, Json::parse_event_t event, Json& parsed) {
    const bool is_event = event == Json::parse_event_t::object_end && depth == 2;
    return !is_event || text_of(parsed, "cat") == "user_annotation";
  };
  TraceFile out{.path = path};
  try {
    const Json trace = Json::parse(in, is_kept);
    out.num_ranks = number<int>(trace.at("distributedInfo"), "world_size");
    for (const auto& event : trace.at("traceEvents")) {
      if (text_of(event, "ph") != "X") continue;
      const double begin = number<double>(event, "ts") / 1e6;
      out.threads[number<int64_t>(event, "tid")].push_back(
          {text_of(event, "name"), begin, begin + number<double>(event, "dur") / 1e6});
    }
  } catch (const Json::exception& error) {
    fail<FileError>("formats", "{} is no trace of convoy train: {}", path.string(),
                    json_trouble(error));
  }
  for (auto& [thread, marks] : out.threads) {
    std::ranges::stable_sort(marks, {}, &TraceMark::begin);
  }
  return out;
}

fs::path trace_of_rank(fs::path trace, int rank) {
  if (rank == 0) return trace;
  const auto extension = trace.extension().string();
  trace.replace_extension();
  return trace += fmt::format(".rank{}{}", rank, extension);
}

}  // namespace convoy::formats
