#include "convoy/data/token_store.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "convoy/base/error.h"

namespace convoy::data {

namespace {

constexpr size_t kWrittenAtOnce = 1 << 20;  // ids

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
  if (mapped_ != nullptr) ::munmap(mapped_, mapped_bytes_);
  if (file_ >= 0) ::close(file_);
}

void TokenStore::append(std::span<const int32_t> ids) {
  memory_.insert(memory_.end(), ids.begin(), ids.end());
  const auto bytes = static_cast<int64_t>(memory_.size() * sizeof(int32_t));
  if (in_file() ? memory_.size() >= kWrittenAtOnce : bytes > budget_) write();
}

void TokenStore::write() {
  if (!in_file()) {
    const char* wanted = std::getenv("TMPDIR");
    folder_ = wanted != nullptr && *wanted != '\0' ? wanted : "/tmp";
    file_ = make_file(folder_);
  }
  const auto* bytes = reinterpret_cast<const char*>(memory_.data());
  for (size_t left = memory_.size() * sizeof(int32_t); left > 0;) {
    const auto written = ::write(file_, bytes, left);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) refuse(folder_);
    bytes += written;
    left -= static_cast<size_t>(written);
  }
  num_written_ += static_cast<int64_t>(memory_.size());
  memory_ = {};
}

std::span<const int32_t> TokenStore::ids() {
  if (!in_file()) return memory_;
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
