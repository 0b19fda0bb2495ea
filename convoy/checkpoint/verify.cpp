#include "convoy/checkpoint/verify.h"

#include <ATen/ATen.h>
#include <sys/stat.h>

#include <algorithm>
#include <deque>
#include <fstream>
#include <optional>

#include "convoy/base/checksum.h"
#include "convoy/base/error.h"
#include "convoy/base/files.h"
#include "convoy/base/text.h"
#include "convoy/checkpoint/contents.h"
#include "convoy/checkpoint/dtypes.h"
#include "convoy/checkpoint/folder.h"
#include "convoy/checkpoint/manifest.h"
#include "convoy/formats/safetensors_folder.h"
#include "convoy/parallel/buffers/finite.h"

namespace convoy::checkpoint {
namespace fs = std::filesystem;

namespace {

constexpr size_t kPieceBytes = size_t{16} << 20;

/// Identity of a folder, which it keeps under another name.
std::optional<std::pair<dev_t, ino_t>> identity(const fs::path& folder) {
  struct stat info{};
  if (::lstat(folder.c_str(), &info) != 0) return std::nullopt;
  return std::pair(info.st_dev, info.st_ino);
}

/// Returns the number of tensors, and the names of the first of them.
template <class Tensors>
std::string summary(const Tensors& tensors) {
  constexpr size_t kShown = 3;
  std::vector<std::string> names;
  for (const auto& [name, what] : tensors) {
    if (names.size() < kShown) names.push_back(name);
  }
  if (tensors.size() > kShown) names.emplace_back("...");
  return fmt::format("{} tensor{} ({})", human_count(std::ssize(tensors)),
                     tensors.size() == 1 ? "" : "s", join(names));
}

class Verifier {
 public:
  Verifier(const fs::path& folder, const ProgressFn& progress)
      : progress_(progress), identity_(identity(folder)) {
    found_.folder = folder;
    std::error_code error;
    const fs::directory_iterator list(folder, error);
    if (error) trouble_ = error.message();
    found_.has_manifest = fs::exists(folder / Manifest::kName, error);
    attempt([&] { manifest_ = Manifest::read(folder); });
  }

  Verification run() {
    if (trouble_.empty()) {
      read_all();
    } else {
      found_.wrong = {fmt::format("{} cannot be read: {}", found_.folder.string(), trouble_)};
    }
    // A run that goes on takes its older checkpoints away, their names first.
    if (!identity_ || identity(found_.folder) != identity_) {
      found_.vanished = true;
      found_.wrong = {"it was removed or replaced while it was read"};
    }
    return std::move(found_);
  }

 private:
  void read_all() {
    const auto files = tensor_files(found_.folder);
    for (const auto& name : files) attempt([&] { open_.emplace_back(found_.folder / name); });
    if (open_.size() == files.size() && formats::has_weights(found_.folder)) {
      attempt([&] { formats::SafetensorsFolder index(found_.folder); });
      check_moments();
    } else if (!formats::has_weights(found_.folder)) {
      found_.wrong.emplace_back("there are no weights");
    }
    for (const auto& file : open_) total_ += bytes_of(file);
    for (const auto& file : open_) check(file);
    for (const auto& [file, sums] : manifest_.sums()) {
      if (std::binary_search(files.begin(), files.end(), file)) continue;
      found_.wrong.push_back(fmt::format("{} is missing, with {}", file, summary(sums)));
    }
    check_small_files();
  }

  template <class Work>
  void attempt(const Work& work) {
    try {
      work();
    } catch (const FileError& error) {
      found_.wrong.emplace_back(error.what());
    }
  }

  /// Checks the shards of moments, and their index.
  void check_moments() {
    const auto moments = found_.folder / kOptimizer;
    const auto place = formats::file_or_index(moments);
    if (place != moments) {
      attempt([&] { formats::SafetensorsFolder index(moments); });
      return;
    }
    const auto stem = moments.stem().string() + "-";
    std::error_code error;
    for (const auto& [file, sums] : manifest_.sums()) {
      if (!file.starts_with(stem) || fs::exists(place, error)) continue;
      found_.wrong.push_back(fmt::format(
          "there is no index of the shards of {}: no run can go on from here", kOptimizer));
      return;
    }
  }

  /// Checks the small files that a run needs to resume, beside its tensors.
  void check_small_files() {
    std::error_code error;
    for (const auto& file : fs::directory_iterator(found_.folder, error)) {
      const auto name = file.path().filename();  // the manifest has been read
      if (name.extension() != ".json" || name == Manifest::kName || file.is_directory(error)) {
        continue;
      }
      attempt([&] { parse_json(read_regular_file(file.path()), file.path().string()); });
    }
    for (auto& wrong : manifest_.wrong_others(found_.folder)) {
      found_.wrong.push_back(std::move(wrong));
    }
    const bool is_checkpoint = found_.folder.filename().string().starts_with(kCheckpointName);
    if (is_checkpoint && !fs::exists(found_.folder / kState, error)) {
      found_.wrong.push_back(fmt::format("there is no {}: no run can go on from here", kState));
    }
  }

  static int64_t bytes_of(const formats::SafetensorsFile& file) {
    int64_t bytes = 0;
    for (const auto& [name, entry] : file.entries()) {
      bytes += static_cast<int64_t>(entry.end - entry.begin);
    }
    return bytes;
  }

  void check(const formats::SafetensorsFile& file) {
    const auto name = file.path().filename().string();
    const auto known = manifest_.sums().find(name);
    const bool listed = known != manifest_.sums().end();
    if (!listed && !manifest_.empty()) {
      found_.wrong.push_back(fmt::format("{} is left over, with {}: {} does not name it", name,
                                         summary(file.entries()), Manifest::kName));
    }
    for (const auto& [tensor, entry] : file.entries()) {
      const auto sum = read(file, tensor, entry);
      if (!listed) continue;
      const auto expected = known->second.find(tensor);
      if (expected == known->second.end()) {
        found_.wrong.push_back(fmt::format("{} is left over in {}", tensor, name));
      } else if (expected->second != sum) {
        found_.wrong.push_back(fmt::format("{} in {} is not as it was written", tensor, name));
      }
    }
    if (!listed) return;
    for (const auto& [tensor, sum] : known->second) {
      if (file.entries().contains(tensor)) continue;
      found_.wrong.push_back(fmt::format("{} is missing in {}", tensor, name));
    }
    attempt([&] { check_head(file); });
  }

  /// Checks the header of a file, which is a function of its tensors in files that convoy wrote.
  void check_head(const formats::SafetensorsFile& file) {
    std::vector<formats::TensorInfo> tensors;
    for (const auto& [name, entry] : file.entries()) {
      tensors.push_back({name, entry.dtype, entry.shape});
    }
    const formats::SafetensorsPlan plan(std::move(tensors));
    std::string head(plan.head.size(), '\0');
    std::ifstream(file.path(), std::ios::binary)
        .read(head.data(), static_cast<std::streamsize>(head.size()));
    if (head == plan.head) return;
    found_.wrong.push_back(
        fmt::format("the header of {} is not as it was written", file.path().filename().string()));
  }

  /// Returns the checksum of a tensor. Looks at its numbers where no manifest vouches for it.
  uint64_t read(const formats::SafetensorsFile& file, const std::string& name,
                const formats::SafetensorsEntry& entry) {
    const auto bytes = file.bytes(name);
    const size_t width = formats::safetensors_dtype_bytes(entry.dtype);
    const bool look = manifest_.empty() && is_real(entry.dtype);
    bool finite = true;
    uint64_t sum = 0;
    for (size_t at = 0; at < bytes.size(); at += kPieceBytes) {
      const auto piece = bytes.subspan(at, std::min(kPieceBytes, bytes.size() - at));
      sum += checksum(piece.data(), piece.size() / width, width, at / width);
      if (look && finite) {
        finite = parallel::is_finite(at::from_blob(const_cast<std::byte*>(piece.data()),
                                                   static_cast<int64_t>(piece.size() / width),
                                                   dtypes().at(entry.dtype)));
      }
      found_.num_bytes += static_cast<int64_t>(piece.size());
      if (progress_) progress_(found_.num_bytes, total_);
    }
    ++found_.num_tensors;
    if (!finite) {
      found_.wrong.push_back(fmt::format("{} in {} holds numbers that are not finite", name,
                                         file.path().filename().string()));
    }
    return sum;
  }

  const ProgressFn& progress_;
  const std::optional<std::pair<dev_t, ino_t>> identity_;
  std::string trouble_;  // why the folder cannot be read
  Manifest manifest_;
  std::deque<formats::SafetensorsFile> open_;
  int64_t total_ = 0;
  Verification found_;
};

}  // namespace

Verification verify(const fs::path& folder, const ProgressFn& progress) {
  return Verifier(folder, progress).run();
}

Json to_json(const Verification& found) {
  return {{"folder", found.folder.string()},
          {"has_manifest", found.has_manifest},
          {"num_tensors", found.num_tensors},
          {"num_bytes", found.num_bytes},
          {"wrong", found.wrong}};
}

}  // namespace convoy::checkpoint
