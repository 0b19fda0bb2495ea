#include "convoy/parallel/offload/torch/offload.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "convoy/base/error.h"
#include "convoy/base/scratch_file.h"
#include "convoy/base/text.h"
#include "convoy/base/timing.h"

namespace convoy::parallel {

namespace {

constexpr int64_t kStoreAlignment = ScratchFile::kAlignment;

}  // namespace

Offload::Offload(const Layout& layout, const OffloadOptions& options, at::Device device,
                 at::ScalarType compute_dtype, const std::vector<optim::StateSpec>& states)
    : pool_(at::TensorOptions().dtype(at::kByte).device(device)) {
  const bool low = layout.options().low_precision;
  std::map<Place, int64_t> bytes;
  const auto add = [&](Kind kind, Place place, const std::vector<at::ScalarType>& dtypes) {
    if (place == Place::Device || !layout.offloaded(kind)) return;
    for (int64_t bucket = 0; bucket < layout.num_buckets(kind); ++bucket) {
      Entry entry;
      entry.place = bytes[place];
      for (const auto dtype : dtypes) {
        const auto size =
            layout.kept(kind, bucket, 0).length() * static_cast<int64_t>(at::elementSize(dtype));
        entry.parts.push_back({entry.bytes, size, dtype});
        entry.bytes += size;
      }
      entry.bytes = static_cast<int64_t>(ScratchFile::aligned(static_cast<size_t>(entry.bytes)));
      bytes[place] += entry.bytes;
      entries_.emplace(Key{kind, bucket}, std::move(entry));
    }
  };
  std::vector<at::ScalarType> moments;
  for (const auto& state : states) moments.push_back(state.dtype);
  add(Kind::Moments, options.optimizer, moments);
  if (low) add(Kind::Masters, options.optimizer, {at::kFloat});
  add(Kind::Gradients, options.gradients, {at::kFloat});
  add(Kind::Weights, options.parameters, {low ? compute_dtype : at::kFloat});
  std::vector<std::string> on_disk;
  const auto name = [&](Place place, const char* option) {
    if (place == Place::Disk) on_disk.push_back(fmt::format("{} = disk", option));
  };
  name(options.optimizer, "offload_optimizer");
  name(options.gradients, "offload_gradients");
  name(options.parameters, "offload_parameters");
  for (const auto& [place, size] : bytes) {
    num_bytes_ += size;
    stores_[place] = place == Place::Disk
                         ? make_disk_store(options.folder, size,
                                           fmt::format("{}, rank {}", join(on_disk), options.rank))
                         : make_host_store(size, device);
  }
  const auto place_of = [&](Kind kind) {
    return kind == Kind::Gradients ? options.gradients
           : kind == Kind::Weights ? options.parameters
                                   : options.optimizer;
  };
  for (auto& [key, entry] : entries_) entry.store = stores_.at(place_of(key.first)).get();
}

Offload::~Offload() {
  const auto disk = stores_.find(Place::Disk);
  const auto end = [&](const Entry& entry, const OffloadStore::Wait& wait) {
    if (disk == stores_.end() || entry.store != disk->second.get() || !wait) return;
    try {
      wait();
    } catch (const std::exception&) {
      // The transfer failed, but nobody needs its result any more.
    }
  };
  for (auto& [key, entry] : entries_) end(entry, entry.wait);
  for (auto& write : in_flight_) end(entries_.at(write.key), write.wait);
}

Offload::Entry& Offload::entry(Kind kind, int64_t bucket) {
  const auto found = entries_.find({kind, bucket});
  internal_check(found != entries_.end(), "parallel", "bucket {} is not offloaded", bucket);
  return found->second;
}

int64_t Offload::num_bytes(Kind kind) const {
  int64_t sum = 0;
  for (const auto& [key, entry] : entries_) sum += key.first == kind ? entry.bytes : 0;
  return sum;
}

/// Takes memory for a bucket. One bucket may be written while another is used and a third is
/// fetched.
void Offload::take(Entry& entry) {
  internal_check(!entry.memory.defined(), "parallel", "offloaded state comes twice");
  while (!in_flight_.empty() && in_flight_.front().key.second != in_flight_.back().key.second)
    complete();
  entry.memory = pool_.take(entry.bytes + kStoreAlignment);
  entry.values = aligned(entry.memory, entry.bytes);
}

void Offload::create(Kind kind, int64_t bucket) {
  take(entry(kind, bucket));
}

void Offload::fetch(Kind kind, int64_t bucket) {
  const Key key{kind, bucket};
  while (std::any_of(in_flight_.begin(), in_flight_.end(),
                     [&](const InFlight& write) { return write.key == key; })) {
    complete();
  }
  auto& wanted = entry(kind, bucket);
  take(wanted);
  wanted.wait = wanted.store->read(wanted.place, wanted.values);
}

at::Tensor Offload::Part::of(const at::Tensor& bytes_of_entry) const {
  return bytes_of_entry.narrow(0, begin, bytes).view(dtype);
}

at::Tensor Offload::here(Kind kind, int64_t bucket, size_t moment) {
  auto& wanted = entry(kind, bucket);
  internal_check(wanted.memory.defined(), "parallel", "bucket {} was not fetched", bucket);
  if (wanted.wait) {
    const auto start = std::chrono::steady_clock::now();
    std::exchange(wanted.wait, {})();
    wait_seconds += seconds_since(start);
  }
  return wanted.parts.at(moment).of(wanted.values);
}

void Offload::store(Kind kind, int64_t bucket) {
  auto& done = entry(kind, bucket);
  here(kind, bucket);
  auto wait = done.store->write(done.place, std::exchange(done.values, {}));
  in_flight_.push_back({{kind, bucket}, std::exchange(done.memory, {}), std::move(wait)});
}

void Offload::drop(Kind kind, int64_t bucket) {
  auto& unused = entry(kind, bucket);
  here(kind, bucket);
  unused.values.reset();
  pool_.give(std::exchange(unused.memory, {}));
}

/// Waits for the oldest write in flight.
void Offload::complete() {
  const auto start = std::chrono::steady_clock::now();
  auto write = std::move(in_flight_.front());
  in_flight_.pop_front();
  write.wait();
  pool_.give(std::move(write.memory));
  wait_seconds += seconds_since(start);
}

void Offload::forget() {
  for (auto& [key, entry] : entries_) {
    if (entry.memory.defined()) drop(key.first, key.second);
  }
}

at::Tensor Offload::view(Kind kind, int64_t bucket, size_t moment) {
  forget();
  while (!in_flight_.empty()) complete();
  auto& wanted = entry(kind, bucket);
  return wanted.parts.at(moment).of(wanted.store->view(wanted.place, wanted.bytes));
}

}  // namespace convoy::parallel
