#include "convoy/checkpoint/copy_slots.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <utility>

#include "convoy/base/error.h"
#include "convoy/base/files.h"
#include "convoy/base/memory_links.h"
#include "convoy/base/text.h"
#include "convoy/checkpoint/folder.h"

namespace convoy::checkpoint {
namespace fs = std::filesystem;

namespace {

/// Name of a copy's folder while it is written.
constexpr const char* kUnfinished = "copying";

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

/// Name of file `f` of a slot, as the launcher linked it.
std::string name_of_file(int slot, size_t f) {
  return memory_link(slot * CopySlots::kFilesOfSlot + static_cast<int>(f));
}

/// Number of the file in memory to which an entry of a copy leads; -1: it is no such link.
int64_t file_of(const fs::path& entry) {
  std::error_code error;
  const auto target = fs::read_symlink(entry, error).filename().string();
  int64_t number = -1;
  const bool is = target.starts_with(kMemoryLink) &&
                  parse_number(target.substr(kMemoryLink.size()), number) && number >= 0 &&
                  number < 2 * CopySlots::kFilesOfSlot;
  return is ? number : -1;
}

/// Slot to which a copy's files lead; -1: none.
int slot_of(const fs::path& copy) {
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(copy, error)) {
    const auto file = file_of(entry.path());
    if (file >= 0) return static_cast<int>(file / CopySlots::kFilesOfSlot);
  }
  return -1;
}

}  // namespace

MappedSlot::Range::~Range() {
  ::munmap(data, bytes);
}

MappedSlot::MappedSlot(const fs::path& folder, int slot, const std::vector<CopyFile>& files) {
  for (size_t f = 0; f < files.size(); ++f) {
    const auto path = folder / name_of_file(slot, f);
    const int fd = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
    if (fd < 0) fail_for("open", path, files[f].bytes);
    void* data = ::mmap(nullptr, files[f].bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    ::close(fd);
    if (data == MAP_FAILED) fail_for("map", path, files[f].bytes);
    ranges_.emplace_back(data, files[f].bytes);
  }
}

CopySlots::CopySlots(fs::path folder) : folder_(std::move(folder)) {}

fs::path CopySlots::copy_of(int64_t step) const {
  return folder_ / name_of_checkpoint(step);
}

fs::path CopySlots::unfinished() const {
  return folder_ / kUnfinished;
}

int CopySlots::begin(const std::vector<CopyFile>& files,
                     const std::array<bool, 2>& has_memory) const try {
  const auto all = list_checkpoints(folder_);
  const auto newest = all.empty() ? fs::path() : all.back().second;
  const int slot = !newest.empty() && slot_of(newest) == 0 ? 1 : 0;
  for (const auto& [step, copy] : all_named(folder_)) {
    if (copy != newest) fs::remove_all(copy);
  }
  fs::remove_all(unfinished());
  make_folder(unfinished());
  for (size_t f = 0; f < files.size(); ++f) {
    const auto memory = name_of_file(slot, f);
    if (!has_memory.at(static_cast<size_t>(slot))) allocate(folder_ / memory, files[f].bytes);
    fs::create_symlink("../" + memory, unfinished() / files[f].name);
  }
  return slot;
} catch (const fs::filesystem_error& error) {
  fail<FileError>("checkpoint", "cannot keep a copy in memory: {}", error.what());
}

void CopySlots::finish(int64_t step) const try {
  fs::rename(unfinished(), copy_of(step));
} catch (const fs::filesystem_error& error) {
  fail<FileError>("checkpoint", "cannot keep a copy in memory: {}", error.what());
}

std::vector<CopyFile> CopySlots::files_of(const fs::path& copy) const try {
  std::map<int64_t, CopyFile> out;
  for (const auto& entry : fs::directory_iterator(copy)) {
    const auto file = file_of(entry.path());
    if (file < 0) continue;
    out[file] = {entry.path().filename().string(), fs::file_size(entry.path())};
  }
  std::vector<CopyFile> files;
  for (auto& [number, file] : out) files.push_back(std::move(file));
  return files;
} catch (const fs::filesystem_error& error) {
  fail<FileError>("checkpoint", "cannot read a copy in memory: {}", error.what());
}

void CopySlots::free_unused() const {
  std::array<bool, 2> used{};
  for (const auto& [step, copy] : list_checkpoints(folder_)) {
    const int slot = slot_of(copy);
    if (slot >= 0) used.at(static_cast<size_t>(slot)) = true;
  }
  for (int slot = 0; slot < 2; ++slot) {
    for (size_t f = 0; !used.at(static_cast<size_t>(slot)) && f < kFilesOfSlot; ++f) {
      static_cast<void>(::truncate((folder_ / name_of_file(slot, f)).c_str(), 0));
    }
  }
}

int64_t CopySlots::held() const {
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

void write_plain(const fs::path& path, const std::string& text) {
  std::ofstream out(path, std::ios::binary);
  out << text;
  out.flush();
  if (!out) {
    fail<FileError>("checkpoint", "cannot write {}: {}", path.string(), write_trouble(errno));
  }
}

}  // namespace convoy::checkpoint
