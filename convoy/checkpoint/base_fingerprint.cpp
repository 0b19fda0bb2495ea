#include "convoy/checkpoint/base_fingerprint.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include "convoy/base/error.h"
#include "convoy/base/files.h"
#include "convoy/base/json.h"
#include "convoy/base/random.h"
#include "convoy/checkpoint/matching.h"
#include "convoy/comm/to_host.h"

namespace convoy::checkpoint {
namespace fs = std::filesystem;

namespace {

constexpr const char* kKey = "fingerprint";
constexpr int64_t kElements = 4;  // of each weight: the first, the last and two between

uint64_t hash_of(const std::string& name, const at::Tensor& weight) {
  uint64_t out = hash_text(name);
  for (const int64_t size : weight.sizes()) out = hash_combine(out, static_cast<uint64_t>(size));
  const auto flat = weight.view(-1);
  for (int64_t i = 0; i < std::min(kElements, flat.numel()); ++i) {
    const int64_t at = (flat.numel() - 1) * i / (kElements - 1);
    const auto rounded = comm::item<double>(flat.select(0, at).to(at::kDouble));
    out = hash_combine(out, c10::BFloat16(static_cast<float>(rounded)).x);
  }
  return out;
}

}  // namespace

std::string base_fingerprint(const fs::path& folder) {
  const formats::SafetensorsFolder files(folder);
  uint64_t sum = 0;  // in any order
  for (const auto& [name, file] : files.tensors()) sum += hash_of(name, mapped(files, name));
  return Json{{kKey, fmt::format("{:016x}", sum)}}.dump() + "\n";
}

void check_fingerprint(const fs::path& base, const fs::path& adapter) {
  const auto file = adapter / kBaseFingerprint;
  std::error_code error;
  if (!fs::is_regular_file(file, error)) return;  // of PEFT, or of a convoy from before it
  const auto expected = parse_json(read_regular_file(file), file.string());
  const auto fresh = Json::parse(base_fingerprint(base));
  if (expected == fresh) return;
  fail<FileError>("lora",
                  "the adapter in {} was trained beside other weights than those in {}; try the "
                  "model that it began with, or remove {} where the weights changed on purpose",
                  adapter.string(), base.string(), file.string());
}

}  // namespace convoy::checkpoint
