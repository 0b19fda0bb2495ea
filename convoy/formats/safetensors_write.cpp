#include <fcntl.h>
#include <fmt/ranges.h>
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

class Output {
 public:
  explicit Output(const std::filesystem::path& path) : path_(path) {
    fd_ = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (fd_ < 0) {
      fail<FileError>("formats", "cannot create {}: {}", path.string(), std::strerror(errno));
    }
  }
  ~Output() { ::close(fd_); }
  Output(const Output&) = delete;
  Output& operator=(const Output&) = delete;

  void write(const void* data, size_t bytes) {
    auto* place = static_cast<const char*>(data);
    while (bytes > 0) {
      ssize_t done = ::write(fd_, place, std::min<size_t>(bytes, size_t{1} << 30));
      if (done < 0 && errno == EINTR) continue;
      if (done <= 0) {
        fail<FileError>("formats", "cannot write {}: {}", path_.string(),
                        done < 0 ? std::strerror(errno) : "the disk takes no more");
      }
      place += done;
      bytes -= static_cast<size_t>(done);
    }
  }

 private:
  std::filesystem::path path_;
  int fd_ = -1;
};

void check_view(const TensorView& tensor) {
  size_t bytes = 0;
  if (safetensors_dtype_bytes(tensor.dtype) == 0) {
    fail<UsageError>("formats", "tensor '{}' has dtype {}; expected one of {}", tensor.name,
                     tensor.dtype, safetensors_dtype_names());
  }
  if (!safetensors_bytes(tensor.dtype, tensor.shape, bytes) || bytes != tensor.bytes) {
    fail<UsageError>("formats", "tensor '{}' holds {} bytes; expected {} for {} x [{}]",
                     tensor.name, tensor.bytes, bytes, tensor.dtype, fmt::join(tensor.shape, ", "));
  }
  if (tensor.name == "__metadata__") {
    fail<UsageError>("formats", "a tensor cannot be named __metadata__");
  }
}

std::string make_header(const std::vector<const TensorView*>& tensors,
                        const std::map<std::string, std::string>& metadata) {
  nlohmann::ordered_json json = nlohmann::ordered_json::object();
  if (!metadata.empty()) json["__metadata__"] = metadata;
  size_t place = 0;
  for (const TensorView* tensor : tensors) {
    if (json.contains(tensor->name)) {
      fail<UsageError>("formats", "tensor '{}' is given twice", tensor->name);
    }
    auto& out = json[tensor->name];
    out["dtype"] = tensor->dtype;
    out["shape"] = tensor->shape;
    out["data_offsets"] = {place, place + tensor->bytes};
    place += tensor->bytes;
  }
  try {
    std::string text = json.dump();
    text.resize((text.size() + 7) / 8 * 8, ' ');
    return text;
  } catch (const nlohmann::ordered_json::exception& error) {
    fail<UsageError>("formats", "a tensor's name or the metadata is not UTF-8: {}", error.what());
  }
}

}  // namespace

void write_safetensors(const std::filesystem::path& path, std::span<const TensorView> tensors,
                       const std::map<std::string, std::string>& metadata) {
  std::vector<const TensorView*> sorted;
  for (const TensorView& tensor : tensors) {
    check_view(tensor);
    sorted.push_back(&tensor);
  }
  std::sort(sorted.begin(), sorted.end(), [](const TensorView* a, const TensorView* b) {
    size_t size_a = safetensors_dtype_bytes(a->dtype), size_b = safetensors_dtype_bytes(b->dtype);
    return size_a != size_b ? size_a > size_b : a->name < b->name;
  });
  const std::string header = make_header(sorted, metadata);
  const uint64_t length = header.size();
  AtomicFile file(path);
  {
    Output out(file.temporary());
    out.write(&length, sizeof length);
    out.write(header.data(), header.size());
    for (const TensorView* tensor : sorted) out.write(tensor->data, tensor->bytes);
  }
  file.commit();
}

}  // namespace convoy::formats
