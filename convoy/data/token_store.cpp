#include "convoy/data/token_store.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <new>

#include "convoy/base/error.h"

namespace convoy::data {

namespace {

constexpr size_t kWrittenAtOnce = 1 << 20;  // ids
constexpr size_t kGrownAtOnce = 1 << 14;    // ids, whole pages of any size

[[noreturn]] void refuse(const std::filesystem::path& folder) {
  fail<FileError>("data",
                  "cannot keep tokens in {}: {}; try another folder as TMPDIR, or a larger "
                  "--data.memory_budget_mb",
                  folder.string(), std::strerror(errno));
}

int make_file(const std::filesystem::path& folder) {
  std::string name = folder / "convoy-tokens-XXXXXX";
  const int file = ::mkostemp(name.data(), O_CLOEXEC);
  if (file < 0) refuse(folder);
  ::unlink(name.c_str());
  return file;
}

}  // namespace

TokenStore::~TokenStore() {
  release();
  if (mapped_ != nullptr) ::munmap(mapped_, mapped_bytes_);
  if (file_ >= 0) ::close(file_);
}

void TokenStore::append(std::span<const int32_t> ids) {
  reserve(in_memory_ + ids.size());
  std::copy(ids.begin(), ids.end(), memory_ + in_memory_);
  in_memory_ += ids.size();
  const auto bytes = static_cast<int64_t>(in_memory_ * sizeof(int32_t));
  if (in_file() ? in_memory_ >= kWrittenAtOnce : bytes > budget_) write();
}

void TokenStore::reserve(size_t count) {
  if (count <= capacity_) return;
  const size_t least = std::max(count, capacity_ + capacity_ / 4);
  const size_t wanted = (least + kGrownAtOnce - 1) / kGrownAtOnce * kGrownAtOnce;
  const size_t bytes = wanted * sizeof(int32_t);
  void* grown =
      memory_ == nullptr
          ? ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)
          : ::mremap(memory_, capacity_ * sizeof(int32_t), bytes, MREMAP_MAYMOVE);
  if (grown == MAP_FAILED) throw std::bad_alloc();
  memory_ = static_cast<int32_t*>(grown);
  capacity_ = wanted;
}

void TokenStore::release() {
  if (memory_ != nullptr) ::munmap(memory_, capacity_ * sizeof(int32_t));
  memory_ = nullptr;
  in_memory_ = capacity_ = 0;
}

void TokenStore::write() {
  if (!in_file()) {
    const char* wanted = std::getenv("TMPDIR");
    folder_ = wanted != nullptr && *wanted != '\0' ? wanted : "/tmp";
    file_ = make_file(folder_);
  }
  const auto* bytes = reinterpret_cast<const char*>(memory_);
  for (size_t left = in_memory_ * sizeof(int32_t); left > 0;) {
    const auto written = ::write(file_, bytes, left);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) refuse(folder_);
    bytes += written;
    left -= static_cast<size_t>(written);
  }
  num_written_ += static_cast<int64_t>(in_memory_);
  release();
}

TokenView TokenStore::view() {
  if (is_foreign()) return foreign_;
  const auto all = ids();
  return {all.data(), sizeof(int32_t), static_cast<int64_t>(all.size())};
}

std::span<const int32_t> TokenStore::ids() {
  internal_check(!is_foreign(), "data", "ids of another program's file may be of 16 bits");
  if (!in_file()) return {memory_, in_memory_};
  write();
  const auto bytes = static_cast<size_t>(num_written_) * sizeof(int32_t);
  if (bytes != mapped_bytes_) {
    if (mapped_ != nullptr) ::munmap(mapped_, mapped_bytes_);
    mapped_ = ::mmap(nullptr, bytes, PROT_READ, MAP_SHARED, file_, 0);
    if (mapped_ == MAP_FAILED) {
      mapped_ = nullptr;
      refuse(folder_);
    }
    mapped_bytes_ = bytes;
    ::madvise(mapped_, bytes, MADV_RANDOM);  // blocks are read in a shuffled order
  }
  return {static_cast<const int32_t*>(mapped_), static_cast<size_t>(num_written_)};
}

}  // namespace convoy::data
