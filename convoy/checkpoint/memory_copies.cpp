#include "convoy/checkpoint/memory_copies.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <cerrno>
#include <cstring>
#include <deque>
#include <fstream>
#include <functional>
#include <utility>

#include "convoy/base/error.h"
#include "convoy/base/fault.h"
#include "convoy/base/files.h"
#include "convoy/base/json_value.h"
#include "convoy/base/text.h"
#include "convoy/checkpoint/adapter.h"
#include "convoy/checkpoint/folder.h"
#include "convoy/checkpoint/host_parts.h"
#include "convoy/checkpoint/manifest.h"
#include "convoy/checkpoint/save.h"
#include "convoy/checkpoint/sums.h"
#include "convoy/comm/agree.h"

namespace convoy::checkpoint {
namespace fs = std::filesystem;

using formats::SafetensorsPlan;
using parallel::State;

namespace {

constexpr std::string_view kMemory = "memory-";
/// Name of a copy's folder while it is written.
constexpr const char* kUnfinished = "copying";
constexpr int kFilesOfSlot = 2;

[[noreturn]] void fail_for(const char* what, const fs::path& path, size_t bytes) {
  const int error = errno;
  fail<FileError>(
      "checkpoint", "cannot {} the memory of a copy ({}, {}): {}", what, path.string(),
      human_bytes(static_cast<double>(bytes)),
      error == EFBIG ? "beyond `ulimit -f`; try ulimit -f unlimited" : std::strerror(error));
}

/// Takes memory for a file of so many bytes, all of it.
void allocate(const fs::path& path, size_t bytes) {
  const int fd = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (fd < 0) fail_for("open", path, bytes);
  const auto size = static_cast<off_t>(bytes);
  const bool done = ::ftruncate(fd, size) == 0 && ::fallocate(fd, 0, 0, size) == 0;
  const int error = errno;
  if (!done) static_cast<void>(::ftruncate(fd, 0));
  ::close(fd);
  errno = error;
  if (!done) fail_for("take", path, bytes);
}

/// Writes a small file without waiting for a disk: a copy is of no use after the host has ended.
void write_plain(const fs::path& path, const std::string& text) {
  std::ofstream out(path, std::ios::binary);
  out << text;
  out.flush();
  if (!out) {
    fail<FileError>("checkpoint", "cannot write {}: {}", path.string(), write_trouble(errno));
  }
}

/// Runs work on files, whose errors are FileError.
Json as_file_error(const std::function<Json()>& work) {
  try {
    return work();
  } catch (const fs::filesystem_error& error) {
    fail<FileError>("checkpoint", "cannot keep a copy in memory: {}", error.what());
  }
}

/// Name of file `f` of a slot, as the launcher linked it.
std::string name_of_file(int slot, size_t f) {
  return fmt::format("{}{}", kMemory, slot * kFilesOfSlot + static_cast<int>(f));
}

/// Slot to which a finished folder leads; -1: none.
int slot_of(const fs::path& folder, const std::string& file) {
  std::error_code error;
  const auto target = fs::read_symlink(folder / file, error).filename().string();
  int64_t number = 0;
  const bool is = target.starts_with(kMemory) &&
                  parse_number(target.substr(kMemory.size()), number) && number < 2 * kFilesOfSlot;
  return is ? static_cast<int>(number / kFilesOfSlot) : -1;
}

}  // namespace

/// The files of a slot in this process's memory.
class MappedSlot {
  struct Range {
    void* data;
    size_t bytes;
    Range(void* data, size_t bytes) : data(data), bytes(bytes) {}
    ~Range() { ::munmap(data, bytes); }
    Range(const Range&) = delete;
    Range& operator=(const Range&) = delete;
  };

 public:
  MappedSlot(const fs::path& folder, int slot, const std::vector<size_t>& bytes) {
    for (size_t f = 0; f < bytes.size(); ++f) {
      const auto path = folder / name_of_file(slot, f);
      const int fd = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
      if (fd < 0) fail_for("open", path, bytes[f]);
      void* data = ::mmap(nullptr, bytes[f], PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
      ::close(fd);
      if (data == MAP_FAILED) fail_for("map", path, bytes[f]);
      ranges_.emplace_back(data, bytes[f]);
    }
  }

  std::byte* file(size_t f) const { return static_cast<std::byte*>(ranges_[f].data); }

 private:
  std::deque<Range> ranges_;
};

MemoryCopies::MemoryCopies(fs::path folder) : folder_(std::move(folder)) {}

MemoryCopies::~MemoryCopies() = default;

int64_t MemoryCopies::bytes_of_both(const State& weights, const State& moments) {
  return static_cast<int64_t>(
      2 * (SafetensorsPlan(infos_of(weights)).bytes + SafetensorsPlan(infos_of(moments)).bytes));
}

void MemoryCopies::lay_out(const State& weights, const State& moments) {
  if (!files_.empty()) return;
  files_.push_back({weights_file(weights), SafetensorsPlan(infos_of(weights))});
  files_.push_back({kOptimizer, SafetensorsPlan(infos_of(moments))});
  size_t file = 0;
  for (const auto* state : {&weights, &moments}) {
    for (const auto& tensor : *state) {
      home_.push_back({file, files_[file].plan.begin.at(tensor.name)});
    }
    ++file;
  }
}

/// Prepares the slot of the older copy for a new one. Returns its number.
int MemoryCopies::prepare(const comm::Group& group) {
  const Json number = comm::ask_main(
      group, "prepare a memory copy",
      [&] {
        return as_file_error([&]() -> Json {
          const auto all = list_checkpoints(folder_);
          const auto newest = all.empty() ? fs::path() : all.back().second;
          const int slot = slot_of(newest, files_[0].name) == 0 ? 1 : 0;
          for (const auto& [step, copy] : all_named(folder_)) {
            if (copy != newest) fs::remove_all(copy);
          }
          fs::remove_all(folder_ / kUnfinished);
          make_folder(folder_ / kUnfinished);
          for (size_t f = 0; f < files_.size(); ++f) {
            const auto memory = name_of_file(slot, f);
            if (!mapped_.at(static_cast<size_t>(slot))) {
              allocate(folder_ / memory, files_[f].plan.bytes);
            }
            fs::create_symlink("../" + memory, folder_ / kUnfinished / files_[f].name);
          }
          return slot;
        });
      },
      comm::Lasts::Long);
  return value_from<int>(number);
}

void MemoryCopies::write(int64_t step, const State& weights, const State& moments,
                         const std::map<std::string, std::string>& texts,
                         const comm::Group& group) {
  lay_out(weights, moments);
  State state = weights;
  state.insert(state.end(), moments.begin(), moments.end());
  keep_own(state, /*all_see=*/true);
  const int slot = prepare(group);
  Sums sums(state);
  comm::each_rank(group, "copy to memory", [&] { put(state, slot, group.rank() == 0, sums); });
  fault_at("copy_sum");
  const auto all_sums = sums.together(group);
  comm::ask_main(
      group, "finish a memory copy",
      [&] {
        return as_file_error([&] {
          Manifest manifest;
          for (const auto& [name, plan] : files_) manifest.set_bytes(name, plan.bytes);
          for (size_t t = 0; t < state.size(); ++t) {
            manifest.set(files_[home_[t].file].name, state[t].name, all_sums[t]);
          }
          const auto unfinished = folder_ / kUnfinished;
          for (const auto& [name, text] : texts) write_plain(unfinished / name, text);
          manifest.set_others(unfinished);
          write_plain(unfinished / Manifest::kName, manifest.to_text());
          fault_at("copy_end");
          fs::rename(unfinished, folder_ / fmt::format("checkpoint-{}", step));
          return Json();
        });
      },
      comm::Lasts::Long);
}

/// Copies this rank's pieces, and adds up their checksums while they are in the caches.
void MemoryCopies::put(const State& state, int slot, bool heads, Sums& sums) {
  constexpr int64_t kBytes = int64_t{1} << 20;
  auto& mapped = mapped_.at(static_cast<size_t>(slot));
  if (!mapped) {
    std::vector<size_t> bytes;
    for (const auto& file : files_) bytes.push_back(file.plan.bytes);
    mapped = std::make_unique<MappedSlot>(folder_, slot, bytes);
  }
  for (size_t f = 0; heads && f < files_.size(); ++f) {
    const auto& head = files_[f].plan.head;
    std::memcpy(mapped->file(f), head.data(), head.size());
  }
  size_t done = 0;
  each_on_host(state, /*backward=*/false, [&](size_t t, const parallel::StatePiece& piece) {
    if (2 * t >= state.size() && done++ == 0) fault_at("copy");
    auto* to = mapped->file(home_[t].file) + home_[t].begin;
    const auto parts = piece.parts(kBytes);
    std::vector<uint64_t> part_sums(parts.size());
    at::parallel_for(0, std::ssize(parts), 1, [&](int64_t begin, int64_t end) {
      for (auto p = static_cast<size_t>(begin); p < static_cast<size_t>(end); ++p) {
        const auto values = parts[p].on_host();
        part_sums[p] = Sums::of(parts[p], values);
        const auto* from = static_cast<const std::byte*>(values.const_data_ptr());
        const auto width = values.element_size();
        parallel::each_row(parts[p], [&](int64_t first, int64_t at, int64_t length) {
          std::memcpy(to + static_cast<size_t>(first) * width,
                      from + static_cast<size_t>(at) * width, static_cast<size_t>(length) * width);
        });
      }
    });
    for (const auto sum : part_sums) sums.add(t, sum);
  });
}

void MemoryCopies::free_unused() const {
  std::array<bool, 2> used{};
  for (const auto& [step, copy] : list_checkpoints(folder_)) {
    for (const auto& entry : fs::directory_iterator(copy)) {
      const int slot = slot_of(copy, entry.path().filename().string());
      if (slot >= 0) used.at(static_cast<size_t>(slot)) = true;
    }
  }
  for (int slot = 0; slot < 2; ++slot) {
    for (size_t f = 0; !used.at(static_cast<size_t>(slot)) && f < kFilesOfSlot; ++f) {
      static_cast<void>(::truncate((folder_ / name_of_file(slot, f)).c_str(), 0));
    }
  }
}

int64_t MemoryCopies::held() const {
  int64_t out = 0;
  for (int slot = 0; slot < 2; ++slot) {
    for (size_t f = 0; f < kFilesOfSlot; ++f) {
      struct stat status{};
      if (::stat((folder_ / name_of_file(slot, f)).c_str(), &status) == 0) {
        out += static_cast<int64_t>(status.st_blocks) * 512;
      }
    }
  }
  return out;
}

}  // namespace convoy::checkpoint
