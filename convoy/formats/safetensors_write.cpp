#include <fcntl.h>
#include <fmt/ranges.h>
#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>

#include "convoy/base/error.h"
#include "convoy/base/files.h"
#include "convoy/formats/safetensors.h"

namespace convoy::formats {

namespace {

/// Makes the header, the tensors' offsets in the data, and the size of the data.
std::string make_header(const std::vector<TensorInfo>& tensors,
                        const std::map<std::string, std::string>& metadata,
                        std::map<std::string, size_t>& places, size_t& place) {
  nlohmann::ordered_json json = nlohmann::ordered_json::object();
  if (!metadata.empty()) json["__metadata__"] = metadata;
  for (const auto& tensor : tensors) {
    size_t bytes = 0;
    if (safetensors_dtype_bytes(tensor.dtype) == 0) {
      fail<UsageError>("formats", "tensor '{}' has dtype {}; expected one of {}", tensor.name,
                       tensor.dtype, safetensors_dtype_names());
    }
    if (!safetensors_bytes(tensor.dtype, tensor.shape, bytes)) {
      fail<UsageError>("formats", "tensor '{}' cannot be {} x [{}]", tensor.name, tensor.dtype,
                       fmt::join(tensor.shape, ", "));
    }
    if (tensor.name == "__metadata__") {
      fail<UsageError>("formats", "a tensor cannot be named __metadata__");
    }
    if (!places.emplace(tensor.name, place).second) {
      fail<UsageError>("formats", "tensor '{}' is given twice", tensor.name);
    }
    auto& out = json[tensor.name];
    out["dtype"] = tensor.dtype;
    out["shape"] = tensor.shape;
    out["data_offsets"] = {place, place + bytes};
    place += bytes;
  }
  try {
    std::string text = json.dump();
    text.resize((text.size() + 7) / 8 * 8, ' ');
    return text;
  } catch (const nlohmann::ordered_json::exception& error) {
    fail<UsageError>("formats", "a tensor's name or the metadata is not UTF-8: {}", error.what());
  }
}

/// Returns how many bytes of a file several processes may write through a mapping at once: all,
/// where the disk has room for it and no other host writes it, whose pages would overwrite these;
/// else 0.
size_t mappable_bytes(int fd) {
  constexpr long kXfs = 0x58465342;
  struct statfs system{};
  struct stat file{};
  if (::fstatfs(fd, &system) != 0 || ::fstat(fd, &file) != 0) return 0;
  const auto type = static_cast<long>(system.f_type);
  const bool is_own = type == EXT4_SUPER_MAGIC || type == kXfs || type == TMPFS_MAGIC ||
                      type == OVERLAYFS_SUPER_MAGIC;
  constexpr int64_t kBlock = 512;  // what st_blocks counts
  const bool has_room = file.st_blocks * kBlock >= file.st_size;
  return is_own && has_room ? static_cast<size_t>(file.st_size) : 0;
}

}  // namespace

SafetensorsPlan::SafetensorsPlan(std::vector<TensorInfo> tensors,
                                 const std::map<std::string, std::string>& metadata) {
  std::sort(tensors.begin(), tensors.end(), [](const TensorInfo& a, const TensorInfo& b) {
    size_t size_a = safetensors_dtype_bytes(a.dtype), size_b = safetensors_dtype_bytes(b.dtype);
    return size_a != size_b ? size_a > size_b : a.name < b.name;
  });
  const auto header = make_header(tensors, metadata, begin, bytes);
  const uint64_t length = header.size();
  head.assign(reinterpret_cast<const char*>(&length), sizeof length);
  head += header;
  bytes += head.size();
  for (auto& [name, place] : begin) place += head.size();
}

void SafetensorsPieces::create(const std::filesystem::path& path, const SafetensorsPlan& plan) {
  const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (fd < 0) {
    fail_to_write("formats", "cannot create " + path.string(), errno);
  }
  // A disk that is too small says so now, where the file system can tell. (posix_fallocate would
  // write into every block where it cannot.)
  const auto bytes = static_cast<off_t>(plan.bytes);
  int error = ::fallocate(fd, 0, 0, bytes) == 0 ? 0 : errno;
  const bool cannot_tell = error == EINVAL || error == EOPNOTSUPP || error == ENOSYS;
  if (cannot_tell) error = ::ftruncate(fd, bytes) == 0 || errno == EINVAL ? 0 : errno;
  ::close(fd);
  if (error != 0) {
    fail_to_write("formats", fmt::format("cannot write {} ({} bytes)", path.string(), plan.bytes),
                  error);
  }
  SafetensorsPieces(path).write(0, plan.head.data(), plan.head.size());
}

SafetensorsPieces::SafetensorsPieces(const std::filesystem::path& path) : path_(path) {
  fd_ = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (fd_ < 0) {
    fail<FileError>("formats", "cannot open {}: {}; is the folder shared by all hosts?",
                    path.string(), std::strerror(errno));
  }
  mappable_ = mappable_bytes(fd_);
}

SafetensorsPieces::~SafetensorsPieces() {
  ::close(fd_);
}

void SafetensorsPieces::write(size_t place, const void* data, size_t bytes) {
  const auto* from = static_cast<const char*>(data);
  while (bytes > 0) {
    const ssize_t done =
        ::pwrite(fd_, from, std::min<size_t>(bytes, size_t{16} << 20), static_cast<off_t>(place));
    if (done < 0 && errno == EINTR) continue;
    if (done <= 0) {
      fail_to_write("formats", "cannot write " + path_.string(), done < 0 ? errno : ENOSPC);
    }
    start(place, place + static_cast<size_t>(done), static_cast<size_t>(done));
    from += done;
    place += static_cast<size_t>(done);
    bytes -= static_cast<size_t>(done);
  }
}

void SafetensorsPieces::write_rows(size_t place, const void* data, size_t row_bytes, size_t rows,
                                   size_t stride) {
  if (row_bytes == stride) return write(place, data, rows * row_bytes);
  const auto* from = static_cast<const char*>(data);
  if (map_rows(place, from, row_bytes, rows, stride)) return;
  for (size_t row = 0; row < rows; ++row) {
    write(place + row * stride, from + row * row_bytes, row_bytes);
  }
}

/// Writes rows through a mapping: where a page has several rows, a system call for each takes many
/// times as long as the copy. Mappings begin and end where huge pages may, since a fault for each
/// page is as slow.
bool SafetensorsPieces::map_rows(size_t place, const char* from, size_t row_bytes, size_t rows,
                                 size_t stride) {
  constexpr size_t kHuge = size_t{2} << 20;
  const size_t end = place + (rows - 1) * stride + row_bytes;
  const auto page = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
  if (rows < 2 || stride > page || end > mappable_) return false;
  const size_t first = place / kHuge * kHuge;
  const size_t bytes = std::min((end + kHuge - 1) / kHuge * kHuge, mappable_) - first;
  void* mapped =
      ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd_, static_cast<off_t>(first));
  if (mapped == MAP_FAILED) return false;
#ifdef MADV_POPULATE_WRITE
  ::madvise(mapped, bytes, MADV_POPULATE_WRITE);  // else each page comes when it is written
#endif
  auto* to = static_cast<char*>(mapped) + (place - first);
  for (size_t row = 0; row < rows; ++row) {
    std::memcpy(to + row * stride, from + row * row_bytes, row_bytes);
  }
  ::munmap(mapped, bytes);
  start(place, end, rows * row_bytes);
  return true;
}

void SafetensorsPieces::start(size_t begin, size_t end, size_t bytes) {
  constexpr size_t kAtOnce = size_t{16} << 20;
  begin_ = waiting_ == 0 ? begin : std::min(begin_, begin);
  end_ = waiting_ == 0 ? end : std::max(end_, end);
  waiting_ += bytes;
  if (waiting_ < kAtOnce) return;
  // Starts writeback only for mostly contiguous bytes: other ranks write the gaps, and writes to
  // pages under writeback wait.
  if (end_ - begin_ < waiting_ + waiting_ / 4) {
    ::sync_file_range(fd_, static_cast<off_t>(begin_), static_cast<off_t>(end_ - begin_),
                      SYNC_FILE_RANGE_WRITE);
  }
  waiting_ = 0;
}

void SafetensorsPieces::sync(const std::function<void()>& between) {
  constexpr off_t kAtOnce = off_t{64} << 20;
  constexpr unsigned kAndWait =
      SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE | SYNC_FILE_RANGE_WAIT_AFTER;
  struct stat file{};
  if (between && ::fstat(fd_, &file) != 0) file.st_size = 0;
  for (off_t begin = 0; begin < file.st_size; begin += kAtOnce) {
    between();
    // A file system without sync_file_range() is left to fdatasync() below, which also reports
    // errors.
    if (::sync_file_range(fd_, begin, kAtOnce, kAndWait) != 0) break;
  }
  if (::fdatasync(fd_) == 0 || errno == EINVAL) return;
  fail_to_write("formats", "cannot write " + path_.string(), errno);
}

void write_safetensors(const std::filesystem::path& path, std::span<const TensorView> tensors,
                       const std::map<std::string, std::string>& metadata) {
  std::vector<TensorInfo> infos;
  for (const auto& tensor : tensors) infos.push_back({tensor.name, tensor.dtype, tensor.shape});
  const SafetensorsPlan plan(std::move(infos), metadata);
  for (const auto& tensor : tensors) {
    size_t bytes = 0;
    safetensors_bytes(tensor.dtype, tensor.shape, bytes);
    if (bytes == tensor.bytes) continue;
    fail<UsageError>("formats", "tensor '{}' holds {} bytes; expected {} for {} x [{}]",
                     tensor.name, tensor.bytes, bytes, tensor.dtype, fmt::join(tensor.shape, ", "));
  }
  AtomicFile file(path);
  SafetensorsPieces::create(file.temporary(), plan);
  SafetensorsPieces pieces(file.temporary());
  for (const auto& tensor : tensors) {
    pieces.write(plan.begin.at(tensor.name), tensor.data, tensor.bytes);
  }
  file.commit();
}

}  // namespace convoy::formats
