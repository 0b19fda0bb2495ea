#include "convoy/formats/trace_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <utility>

#include "convoy/base/error.h"
#include "convoy/base/json.h"

namespace convoy::formats {
namespace fs = std::filesystem;

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
    out.num_ranks = trace.at("distributedInfo").at("world_size").get<int>();
    for (const auto& event : trace.at("traceEvents")) {
      if (text_of(event, "ph") != "X") continue;
      const double begin = event.at("ts").get<double>() / 1e6;
      out.threads[event.at("tid").get<int64_t>()].push_back(
          {text_of(event, "name"), begin, begin + event.at("dur").get<double>() / 1e6});
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
