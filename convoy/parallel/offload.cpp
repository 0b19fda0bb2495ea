#include "convoy/parallel/offload.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "convoy/base/error.h"
#include "convoy/base/scratch_file.h"
#include "convoy/base/text.h"
#include "convoy/base/timing.h"
#include "convoy/optim/adamw.h"

namespace convoy::parallel {

using schedule::Kind;

namespace {

constexpr int64_t kAlignment = ScratchFile::kAlignment;

}  // namespace

Offload::Offload(const schedule::Layout& layout, const OffloadOptions& options, at::Device device,
                 at::ScalarType compute_dtype)
    : pool_(at::TensorOptions().dtype(at::kByte).device(device)) {
  const bool low = layout.options().low_precision;
  std::map<Place, int64_t> bytes;
  const auto add = [&](Kind kind, Place place, at::ScalarType dtype, int64_t copies) {
    if (place == Place::Device || !layout.offloaded(kind)) return;
    for (int64_t bucket = 0; bucket < layout.num_buckets(kind); ++bucket) {
      Entry entry;
      entry.place = bytes[place];
      entry.elements = copies * layout.kept(kind, bucket, 0).length();
      entry.dtype = dtype;
      entry.bytes = static_cast<int64_t>(
          ScratchFile::aligned(static_cast<size_t>(entry.elements) * at::elementSize(dtype)));
      bytes[place] += entry.bytes;
      entries_.emplace(Key{kind, bucket}, std::move(entry));
    }
  };
  add(Kind::Moments, options.optimizer, at::kFloat, optim::kMoments.size());
  if (low) add(Kind::Masters, options.optimizer, at::kFloat, 1);
  add(Kind::Gradients, options.gradients, at::kFloat, 1);
  add(Kind::Weights, options.parameters, low ? compute_dtype : at::kFloat, 1);
  std::vector<std::string> on_disk;
  const auto name = [&](Place place, const char* option) {
    if (place == Place::Disk) on_disk.push_back(fmt::format("{} = disk", option));
  };
  name(options.optimizer, "offload_optimizer");
  name(options.gradients, "offload_gradients");
  name(options.parameters, "offload_parameters");
  for (const auto& [place, size] : bytes) {
    num_bytes_ += size;
    shelves_[place] = place == Place::Disk
                          ? make_disk_shelf(options.folder, size,
                                            fmt::format("{}, rank {}", join(on_disk), options.rank))
                          : make_host_shelf(size, device);
  }
  const auto place_of = [&](Kind kind) {
    return kind == Kind::Gradients ? options.gradients
           : kind == Kind::Weights ? options.parameters
                                   : options.optimizer;
  };
  for (auto& [key, entry] : entries_) entry.shelf = shelves_.at(place_of(key.first)).get();
}

Offload::~Offload() {
  const auto end = [](const Shelf::Wait& wait) {
    try {
      if (wait) wait();
    } catch (const std::exception&) {
      // Nobody needs it any more.
    }
  };
  for (auto& [key, entry] : entries_) end(entry.wait);
  for (auto& flight : flights_) end(flight.wait);
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

/// Finds memory. One bucket may be on its way out while another is used and a third comes in.
void Offload::take(Entry& entry) {
  internal_check(!entry.memory.defined(), "parallel", "offloaded state comes twice");
  while (!flights_.empty() && flights_.front().key.second != flights_.back().key.second) land();
  entry.memory = pool_.take(entry.bytes + kAlignment);
  entry.values = aligned(entry.memory, entry.bytes);
}

void Offload::create(Kind kind, int64_t bucket) {
  take(entry(kind, bucket));
}

void Offload::fetch(Kind kind, int64_t bucket) {
  const Key key{kind, bucket};
  while (std::any_of(flights_.begin(), flights_.end(),
                     [&](const Flight& flight) { return flight.key == key; })) {
    land();
  }
  auto& wanted = entry(kind, bucket);
  take(wanted);
  wanted.wait = wanted.shelf->read(wanted.place, wanted.values);
}

at::Tensor Offload::here(Kind kind, int64_t bucket) {
  auto& wanted = entry(kind, bucket);
  internal_check(wanted.memory.defined(), "parallel", "bucket {} was not fetched", bucket);
  if (wanted.wait) {
    const auto start = std::chrono::steady_clock::now();
    std::exchange(wanted.wait, {})();
    wait_seconds += seconds_since(start);
  }
  return wanted.values.view(wanted.dtype).narrow(0, 0, wanted.elements);
}

void Offload::store(Kind kind, int64_t bucket) {
  auto& done = entry(kind, bucket);
  here(kind, bucket);
  auto wait = done.shelf->write(done.place, std::exchange(done.values, {}));
  flights_.push_back({{kind, bucket}, std::exchange(done.memory, {}), std::move(wait)});
}

void Offload::drop(Kind kind, int64_t bucket) {
  auto& unused = entry(kind, bucket);
  here(kind, bucket);
  unused.values.reset();
  pool_.give(std::exchange(unused.memory, {}));
}

/// Waits for the oldest write.
void Offload::land() {
  const auto start = std::chrono::steady_clock::now();
  auto flight = std::move(flights_.front());
  flights_.pop_front();
  flight.wait();
  pool_.give(std::move(flight.memory));
  wait_seconds += seconds_since(start);
}

void Offload::forget() {
  for (auto& [key, entry] : entries_) {
    if (entry.memory.defined()) drop(key.first, key.second);
  }
}

at::Tensor Offload::view(Kind kind, int64_t bucket) {
  forget();
  while (!flights_.empty()) land();
  auto& wanted = entry(kind, bucket);
  return wanted.shelf->view(wanted.place, wanted.bytes)
      .view(wanted.dtype)
      .narrow(0, 0, wanted.elements);
}

}  // namespace convoy::parallel
