#include "convoy/train/logging/trace.h"

#include <ATen/Context.h>
#include <fmt/format.h>
#include <torch/csrc/autograd/profiler_kineto.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <iterator>

#include "convoy/base/error.h"
#include "convoy/base/files.h"
#include "convoy/base/json.h"
#include "convoy/base/text.h"
#include "convoy/formats/trace_file.h"
#include "convoy/launch/error_file.h"

namespace convoy::train {
namespace fs = std::filesystem;
namespace profiler = torch::autograd::profiler;
using torch::profiler::impl::ActivityType;

namespace {

/// Throws where the trace is incomplete: the profiler reports no full disk, but ends a file with
/// known text.
void check_whole(const fs::path& file, const fs::path& shown) {
  constexpr std::streamoff kEnd = 300;
  std::ifstream in(file, std::ios::binary | std::ios::ate);
  const auto size = std::max<std::streamoff>(0, in.tellg());
  in.seekg(std::max<std::streamoff>(0, size - kEnd));
  const auto end = trim(std::string(std::istreambuf_iterator<char>(in), {}));
  if (end.ends_with('}') && end.find("\"traceName\"") != std::string::npos) return;
  fail<FileError>("train", "the trace {} could not be written whole; is the disk full?",
                  shown.string());
}

/// Names the rank where the profiler names the process, and sorts by it.
void name_rank(const fs::path& file, const fs::path& shown, int rank, int num_ranks) {
  std::ifstream in(file, std::ios::binary);
  Json trace = Json::parse(in, nullptr, /*allow_exceptions=*/false);
  if (!trace.is_object() || !trace.contains("traceEvents")) return;
  const auto name = fmt::format("rank {} of {} on {}", rank, num_ranks, launch::host_name());
  for (auto& event : trace["traceEvents"]) {
    if (event.value("ph", "") != "M" || event.value("pid", Json()) != Json(::getpid())) continue;
    if (event["name"] == "process_name") event["args"]["name"] = name;
    if (event["name"] == "process_sort_index") event["args"]["sort_index"] = rank;
  }
  trace["distributedInfo"] = {{"rank", rank}, {"world_size", num_ranks}};  // as PyTorch writes it
  trace["traceName"] = shown.filename().string();
  std::ofstream(file, std::ios::binary | std::ios::trunc) << json_line(trace) << std::flush;
}

}  // namespace

struct Trace::Recording {
  fs::path path;
  int rank = 0, num_ranks = 1;
  int64_t skip = 0, num_steps = 0;
  int64_t step = 0;  // begun so far
  bool running = false;
};

Trace::Trace() = default;
Trace::Trace(Trace&&) noexcept = default;
Trace& Trace::operator=(Trace&&) noexcept = default;
Trace::~Trace() = default;

Trace::Trace(fs::path path, int rank, int num_ranks, int64_t skip, int64_t num_steps) {
  if (path.empty()) return;
  path = formats::trace_of_rank(std::move(path), rank);
  if (fs::is_directory(path)) {
    fail<UsageError>("train", "output.trace = {} is a folder; expected a file", path.string());
  }
  if (fs::exists(path) && !fs::is_regular_file(path)) {  // which the profiler would replace
    fail<UsageError>("train", "output.trace = {} is no regular file; expected a file",
                     path.string());
  }
  write_file(path.string() + ".writable", "");  // finds out now
  fs::remove(path.string() + ".writable");
  recording_ =
      std::make_unique<Recording>(Recording{std::move(path), rank, num_ranks, skip, num_steps});
}

void Trace::begin_step() {
  if (!recording_ || recording_->step++ != recording_->skip) return;
  // The profiler's library mentions every GPU that is not there.
  setenv("KINETO_LOG_LEVEL", "99", /*overwrite=*/0);
  std::set<ActivityType> activities{ActivityType::CPU};
  if (at::hasCUDA()) activities.insert(ActivityType::CUDA);
  torch::profiler::impl::ProfilerConfig config(torch::profiler::impl::ProfilerState::KINETO);
  profiler::prepareProfiler(config, activities);
  profiler::enableProfiler(
      config, activities,
      {at::RecordScope::FUNCTION, at::RecordScope::BACKWARD_FUNCTION, at::RecordScope::USER_SCOPE});
  recording_->running = true;
}

bool Trace::end_step() {
  return recording_ && recording_->step >= recording_->skip + recording_->num_steps;
}

fs::path Trace::finish() {
  const auto recording = std::move(recording_);  // ended, whatever becomes of the file
  if (!recording || !recording->running) return {};
  const auto result = profiler::disableProfiler();
  AtomicFile file(recording->path);
  result->save(file.temporary().string());
  std::error_code ignored;
  fs::remove(file.temporary().string() + ".tmp", ignored);  // the profiler's own, if it gave up
  name_rank(file.temporary(), recording->path, recording->rank, recording->num_ranks);
  check_whole(file.temporary(), recording->path);
  file.commit();
  return recording->path;
}

}  // namespace convoy::train
