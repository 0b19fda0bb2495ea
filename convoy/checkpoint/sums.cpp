#include "convoy/checkpoint/sums.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cstddef>

#include "convoy/base/checksum.h"
#include "convoy/checkpoint/manifest.h"
#include "convoy/checkpoint/matching.h"

namespace convoy::checkpoint {

Sums::Sums(const parallel::State& state)
    : sums_(at::zeros({static_cast<int64_t>(state.size())}, at::kLong)) {}

void Sums::add(size_t tensor, uint64_t sum) {
  sums_.mutable_data_ptr<int64_t>()[tensor] += static_cast<int64_t>(sum);
}

uint64_t Sums::of(const parallel::StatePiece& piece, const at::Tensor& values) {
  const auto* from = static_cast<const std::byte*>(values.const_data_ptr());
  const auto width = values.element_size();
  uint64_t sum = 0;
  parallel::each_row(piece, [&](int64_t begin, int64_t at, int64_t length) {
    sum += checksum(from + static_cast<size_t>(at) * width, static_cast<size_t>(length), width,
                    static_cast<uint64_t>(begin));
  });
  return sum;
}

std::vector<uint64_t> Sums::together(const comm::Group& group, int host, int num_hosts) {
  const int64_t count = sums_.numel();
  std::vector<int64_t> all(static_cast<size_t>(num_hosts * count));
  const auto own = all.begin() + host * count;
  std::copy_n(sums_.const_data_ptr<int64_t>(), count, own);
  group.all_reduce(at::from_blob(all.data(), {std::ssize(all)}, at::kLong), comm::ReduceOp::Sum,
                   "add up checksums");
  return {own, own + count};
}

std::map<std::string, uint64_t> expected_sums(const formats::SafetensorsFolder& files) {
  std::map<std::string, uint64_t> out;
  const auto manifest = Manifest::read(files.files().at(0).path().parent_path());
  for (const auto& [name, file] : files.tensors()) {
    const auto known = manifest.sums().find(file->path().filename().string());
    if (known == manifest.sums().end()) continue;
    const auto sum = known->second.find(name);
    if (sum != known->second.end()) out[name] = sum->second;
  }
  return out;
}

void check_sum(const formats::SafetensorsFolder& files, const std::string& name,
               const std::map<std::string, uint64_t>& expected) {
  const auto sum = expected.find(name);
  if (sum == expected.end()) return;
  const auto bytes = files.bytes(name);
  const size_t width = formats::safetensors_dtype_bytes(files.entry(name).dtype);
  if (checksum(bytes.data(), bytes.size() / width, width, 0) == sum->second) return;
  refuse(files.path(), "is not as it was written: ", {name});
}

}  // namespace convoy::checkpoint
