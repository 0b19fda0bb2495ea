#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace convoy {
class MappedFile;
}

namespace convoy::formats {

/// One tensor of a safetensors file.
struct SafetensorsEntry {
  std::string dtype;  ///< "F32", "BF16", "F16", "I64", ...
  std::vector<int64_t> shape;
  size_t begin = 0;  ///< first byte in the data that follows the header
  size_t end = 0;    ///< one past the last byte
};

/// Bytes of one element, 0 for a dtype that is not known.
size_t safetensors_dtype_bytes(const std::string& dtype);
/// Returns the dtypes that are known, for messages.
std::string safetensors_dtype_names();
/// Bytes of a tensor; false when the number does not fit.
bool safetensors_bytes(const std::string& dtype, const std::vector<int64_t>& shape, size_t& bytes);

/// A safetensors file, mapped into memory and checked as a whole when opened: header within the
/// file, known dtypes, bytes equal to shape x size, no gap, no overlap, nothing left over.
class SafetensorsFile {
 public:
  using Entry = SafetensorsEntry;

  /// Throws FileError that names the file and what is wrong with it.
  explicit SafetensorsFile(const std::filesystem::path& path);

  const std::filesystem::path& path() const { return path_; }
  const std::map<std::string, Entry>& entries() const { return entries_; }
  const std::map<std::string, std::string>& metadata() const { return metadata_; }
  /// Returns the tensor of that name; throws FileError with the nearest name when there is none.
  const Entry& entry(const std::string& name) const;
  /// Bytes of the tensor of that name, valid while this object (or a copy) lives. Throws like
  /// entry().
  std::span<const std::byte> bytes(const std::string& name) const;
  /// Copies those bytes of a tensor, [begin, end). Throws FileError where they cannot be read.
  void read(const std::string& name, size_t begin, size_t end, void* to) const;
  /// Asks the system to read those bytes while other work goes on.
  void read_ahead(const std::string& name, size_t begin, size_t end) const;

 private:
  void parse(std::span<const std::byte> file);

  std::filesystem::path path_;
  std::map<std::string, Entry> entries_;
  std::map<std::string, std::string> metadata_;
  std::shared_ptr<const MappedFile> mapping_;
  std::span<const std::byte> data_;
};

/// A tensor to write; `data` holds `bytes` bytes in row-major order, little-endian.
struct TensorView {
  std::string name;
  std::string dtype;
  std::vector<int64_t> shape;
  const void* data = nullptr;
  size_t bytes = 0;
};

/// A tensor that is going to be written.
struct TensorInfo {
  std::string name;
  std::string dtype;
  std::vector<int64_t> shape;
};

/// Layout of a file: it depends on its tensors alone, in any order. Larger dtypes come first, then
/// names, and the header is padded with spaces, so that every tensor is aligned.
struct SafetensorsPlan {
  std::string head;                     ///< length and header
  std::map<std::string, size_t> begin;  ///< of each tensor in the file
  size_t bytes = 0;                     ///< of the file

  /// Throws UsageError for a dtype that is not known, or a name twice.
  explicit SafetensorsPlan(std::vector<TensorInfo> tensors,
                           const std::map<std::string, std::string>& metadata = {{"format", "pt"}});
};

/// A file that is written in pieces, by several processes at once. All throw FileError.
class SafetensorsPieces {
 public:
  /// Makes the file, with its header and of its final size.
  static void create(const std::filesystem::path& path, const SafetensorsPlan& plan);

  explicit SafetensorsPieces(const std::filesystem::path& path);
  ~SafetensorsPieces();
  SafetensorsPieces(const SafetensorsPieces&) = delete;
  SafetensorsPieces& operator=(const SafetensorsPieces&) = delete;

  void write(size_t place, const void* data, size_t bytes);
  /// Rows that lie `stride` bytes apart in the file and side by side in `data`.
  void write_rows(size_t place, const void* data, size_t row_bytes, size_t rows, size_t stride);
  /// Returns when all is on the disk. Calls `between` now and then, which may throw.
  void sync(const std::function<void()>& between = {});

 private:
  /// Asks the disk now and then to begin with the bytes that were written; sync() writes the rest.
  void start(size_t begin, size_t end, size_t bytes);

  /// Whether the rows could be written where the file is mapped.
  bool map_rows(size_t place, const char* from, size_t row_bytes, size_t rows, size_t stride);

  std::filesystem::path path_;
  int fd_ = -1;
  size_t mappable_ = 0;                       // bytes, from the start
  size_t begin_ = 0, end_ = 0, waiting_ = 0;  // bytes that the disk has not been told of
};

/// Writes a file that appears whole or not at all. Throws UsageError for what no plan can be made
/// of, and for bytes that do not fit the shape; FileError when writing fails.
void write_safetensors(const std::filesystem::path& path, std::span<const TensorView> tensors,
                       const std::map<std::string, std::string>& metadata = {{"format", "pt"}});

}  // namespace convoy::formats
