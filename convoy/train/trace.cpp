#include "convoy/train/trace.h"

#include <ATen/Context.h>
#include <fmt/format.h>
#include <torch/csrc/autograd/profiler_kineto.h>

#include <cstdlib>

#include "convoy/base/error.h"
#include "convoy/base/files.h"

namespace convoy::train {
namespace fs = std::filesystem;
namespace profiler = torch::autograd::profiler;
using torch::profiler::impl::ActivityType;

struct Trace::Recording {
  fs::path path;
  int64_t skip = 0, num_steps = 0;
  int64_t step = 0;  // begun so far
  bool running = false;
};

Trace::Trace() = default;
Trace::Trace(Trace&&) noexcept = default;
Trace& Trace::operator=(Trace&&) noexcept = default;
Trace::~Trace() = default;

Trace::Trace(fs::path path, int rank, int64_t skip, int64_t num_steps) {
  if (path.empty()) return;
  if (rank > 0) {
    const auto extension = path.extension().string();
    path.replace_extension();
    path += fmt::format(".rank{}{}", rank, extension);
  }
  if (fs::is_directory(path)) {
    fail<UsageError>("train", "output.trace = {} is a folder; expected a file", path.string());
  }
  write_file(path.string() + ".writable", "");  // finds out now
  fs::remove(path.string() + ".writable");
  recording_ = std::make_unique<Recording>(Recording{std::move(path), skip, num_steps});
}

void Trace::begin_step() {
  if (!recording_ || recording_->step++ != recording_->skip) return;
  // The profiler's library talks of every GPU that is not there.
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
  fs::path written;
  if (recording_ && recording_->running) {
    written = recording_->path;
    AtomicFile file(written);
    profiler::disableProfiler()->save(file.temporary().string());
    file.commit();
  }
  recording_.reset();
  return written;
}

}  // namespace convoy::train
