#include "convoy/bench/save.h"

#include <ATen/ATen.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <new>
#include <numeric>

#include "convoy/base/error.h"
#include "convoy/base/files.h"
#include "convoy/base/text.h"
#include "convoy/base/timing.h"
#include "convoy/bench/without_evaluation.h"
#include "convoy/checkpoint/folder.h"
#include "convoy/checkpoint/save.h"
#include "convoy/checkpoint/weights.h"
#include "convoy/comm/agree.h"
#include "convoy/formats/shard_size.h"
#include "convoy/launch/supervise/temporary_folder.h"

namespace convoy::bench {

namespace {

namespace fs = std::filesystem;
using Steady = std::chrono::steady_clock;

constexpr int64_t kSettling = 2;  // steps

/// Divides the steps of a run into those with a checkpoint in progress and others, and finds the
/// delay of each save.
class SaveTimer : public train::Callback {
 public:
  explicit SaveTimer(int64_t save_steps) : save_steps_(save_steps) {}

  void on_save(const fs::path&) override { saved_ = true; }

  void on_step(const train::StepTiming& timing) override {
    // The clock of steps stops while a save begins.
    if (timing.step > 1 && (timing.step - 1) % save_steps_ == 0) {
      held_up.push_back(seconds_since(last_) - timing.seconds);
      under_way_ = true;
    }
    if (timing.step > kSettling) (under_way_ ? during : without).push_back(timing.seconds);
    if (saved_) under_way_ = saved_ = false;
    last_ = Steady::now();
  }

  std::vector<double> held_up, during, without;

 private:
  int64_t save_steps_;
  bool saved_ = false, under_way_ = false;
  Steady::time_point last_ = Steady::now();
};

class OpenFile {
 public:
  OpenFile(const fs::path& path, int flags) : fd_(::open(path.c_str(), flags | O_CLOEXEC, 0666)) {
    if (fd_ < 0)
      fail<FileError>("bench", "cannot open {}: {}", path.string(), std::strerror(errno));
  }
  ~OpenFile() { ::close(fd_); }
  int fd() const { return fd_; }

 private:
  int fd_;
};

/// Writes a file in large blocks, one after the other, as fast as a disk can.
void write_plainly(const fs::path& path, int64_t bytes, std::vector<char>& block) {
  const OpenFile file(path, O_WRONLY | O_CREAT | O_TRUNC);
  while (bytes > 0) {
    const auto some = std::min<int64_t>(bytes, static_cast<int64_t>(block.size()));
    if (::write(file.fd(), block.data(), static_cast<size_t>(some)) != some) {
      fail<FileError>("bench", "cannot write {}: {}", path.string(), write_trouble(errno));
    }
    bytes -= some;
  }
  ::fdatasync(file.fd());
}

void read_plainly(const fs::path& path, std::vector<char>& block) {
  const OpenFile file(path, O_RDONLY);
  while (::read(file.fd(), block.data(), block.size()) > 0) {
  }
}

/// Drops the files in `folder` from the page cache, so that they are read from the disk.
void forget(const fs::path& folder) {
  for (const auto& entry : fs::directory_iterator(folder)) {
    const OpenFile file(entry.path(), O_RDONLY);
    ::fdatasync(file.fd());
    ::posix_fadvise(file.fd(), 0, 0, POSIX_FADV_DONTNEED);
  }
}

int64_t owned_bytes(const parallel::State& state) {
  int64_t bytes = 0;
  for (const auto& tensor : state) {
    for (const auto& piece : tensor.pieces) {
      if (piece.owned) bytes += static_cast<int64_t>(piece.values.nbytes());
    }
  }
  return bytes;
}

/// Copies what this rank owns into memory that is new to the process, as a save finds it.
void copy(const std::vector<parallel::State>& states, size_t bytes) {
  void* memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) throw std::bad_alloc();
  auto* to = static_cast<char*>(memory);
  for (const auto& state : states) {
    for (const auto& tensor : state) {
      for (const auto& piece : tensor.pieces) {
        if (!piece.owned) continue;
        const auto host = piece.values.to(at::kCPU).contiguous();
        std::memcpy(to, host.const_data_ptr(), host.nbytes());
        to += host.nbytes();
      }
    }
  }
  ::munmap(memory, bytes);
}

double mean(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

/// Seconds of `work` on all ranks together. Work that is Lasts::Long must not use the group.
double together(const comm::Group& group, const std::function<void()>& work, comm::Lasts lasts) {
  group.barrier("before");
  const auto began = Steady::now();
  comm::each_rank(group, "bench save", work, lasts);
  return seconds_since(began);
}

SaveTimes measure_saves(parallel::Strategy& strategy, const fs::path& folder, int64_t rounds) {
  const auto& group = strategy.processes();
  const auto weights = strategy.weights(), moments = strategy.moments();
  const int64_t own = owned_bytes(weights) + owned_bytes(moments);
  auto all = at::full({1}, own, at::kLong);
  group.all_reduce(all, comm::ReduceOp::Sum, "bytes");
  std::vector<char> block(size_t{16} << 20, 'x');
  const auto plain = folder / "plain", tensors = folder / "tensors";
  const auto mine = plain / std::to_string(group.rank());
  std::map<std::string, std::vector<double>> seconds;
  for (int64_t round = 0; round < rounds; ++round) {
    const auto note = [&](const char* what, const std::function<void()>& work,
                          comm::Lasts lasts = comm::Lasts::Briefly) {
      seconds[what].push_back(together(group, work, lasts));
    };
    comm::ask_main(group, "make folders", [&] {
      for (const auto& each : {plain, tensors}) {
        fs::remove_all(each);
        make_folder(each);
      }
      return Json();
    });
    const auto write = [&] {
      note("plain_write", [&] { write_plainly(mine, own, block); }, comm::Lasts::Long);
    };
    const auto read = [&] {
      note("plain_read", [&] { read_plainly(mine, block); }, comm::Lasts::Long);
    };
    const bool plain_first = round % 2 == 0;  // a disk may give its best to whoever comes first
    if (plain_first) write();
    note("save", [&] {
      checkpoint::BackgroundSave save({.folder = tensors,
                                       .weights = weights,
                                       .moments = moments,
                                       .max_shard_bytes = formats::shard_bytes("5GB")},
                                      group);
      const auto manifest = save.finish();
      if (group.rank() != 0) return;
      write_file(tensors / checkpoint::Manifest::kName, manifest.to_text());
    });
    if (!plain_first) write();
    comm::ask_main(group, "forget", [&] {
      forget(plain);
      forget(tensors);
      return Json();
    });
    if (plain_first) read();
    note("load", [&] {
      checkpoint::load_weights(tensors, weights, group);
      checkpoint::load_optimizer(tensors / checkpoint::kOptimizer, moments, group);
    });
    if (!plain_first) read();
    note("copy", [&] { copy({weights, moments}, static_cast<size_t>(own)); });
  }
  SaveTimes out;
  out.bytes = all.item<int64_t>();
  out.save = median(seconds.at("save"));
  out.plain_write = median(seconds.at("plain_write"));
  out.load = median(seconds.at("load"));
  out.plain_read = median(seconds.at("plain_read"));
  out.copy = median(seconds.at("copy"));
  return out;
}

}  // namespace

fs::path new_save_folder(const fs::path& folder) {
  auto out = folder / fmt::format("bench-save-{}", ::getpid());
  make_folder(out);
  return out;
}

std::optional<SaveTimes> time_saves(tasks::Task& task, options::TrainingArguments arguments,
                                    const SaveOptions& options) {
  auto job = job::join_job(arguments.parallel);
  std::optional<launch::TemporaryFolder> made;
  const fs::path folder = comm::ask_main(job.world(), "make a folder", [&] {
                            if (!options.within.empty()) return Json(options.within.string());
                            made.emplace(new_save_folder(options.folder));
                            return Json(made->path().string());
                          }).get<std::string>();
  arguments.max_steps = (options.saves + 1) * options.save_steps - 1;
  leave_out_evaluation(arguments);
  arguments.logging_strategy = "no";
  arguments.save_strategy = "steps";
  arguments.save_steps = static_cast<double>(options.save_steps);
  arguments.save_total_limit = 1;
  arguments.output.dir = (folder / "run").string();
  arguments.output.quiet = true;
  arguments.resume_from_checkpoint.clear();
  auto run = task.prepare(arguments.parallel);
  train::Trainer trainer(run.factory, arguments, run.train_data, nullptr, job, run.fill);
  auto timer = std::make_shared<SaveTimer>(options.save_steps);
  trainer.add_callback(timer);
  trainer.train();
  auto out = measure_saves(trainer.strategy(), folder, options.rounds);
  if (!job.is_main()) return std::nullopt;
  out.held_up = median(timer->held_up);
  out.step_during = mean(timer->during);
  out.step_without = median(timer->without);
  return out;
}

Json to_json(const SaveTimes& t) {
  return {{"bytes", t.bytes},
          {"save_seconds", t.save},
          {"plain_write_seconds", t.plain_write},
          {"load_seconds", t.load},
          {"plain_read_seconds", t.plain_read},
          {"copy_seconds", t.copy},
          {"held_up_seconds", t.held_up},
          {"held_up_copies", t.held_up / t.copy},
          {"step_seconds_during", t.step_during},
          {"step_seconds_without", t.step_without},
          {"during_ratio", t.step_during / t.step_without}};
}

}  // namespace convoy::bench
