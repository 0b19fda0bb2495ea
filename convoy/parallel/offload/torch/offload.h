#pragma once

#include <ATen/core/Tensor.h>

#include <deque>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "convoy/optim/optimizer.h"
#include "convoy/parallel/layout.h"
#include "convoy/parallel/offload/torch/pool.h"
#include "convoy/parallel/parallelism.h"

namespace convoy::parallel {

/// Room outside of the device's memory, in bytes from 0 on.
class OffloadStore {
 public:
  /// Waits for a transfer. Call it once, in the thread that computes.
  using Wait = std::function<void()>;

  /// Ends the transfers under way on a GPU.
  virtual ~OffloadStore() = default;
  /// Starts filling `memory`, [bytes] on the device, or writing it. Leave the memory alone until
  /// the wait is over. Written bytes can be read once their wait is over.
  virtual Wait read(int64_t place, at::Tensor memory) = 0;
  virtual Wait write(int64_t place, at::Tensor memory) = 0;
  /// View of bytes of the store as a tensor of the host, while no transfer of them is under way.
  virtual at::Tensor view(int64_t place, int64_t bytes) = 0;
};

/// Returns the first `bytes` of some memory, [more than bytes], that a file can be read into
/// directly.
at::Tensor aligned(const at::Tensor& memory, int64_t bytes);

/// A file without a name in `folder`, and a GPU's pinned host memory.
std::unique_ptr<OffloadStore> make_disk_store(const std::filesystem::path& folder, int64_t bytes,
                                              const std::string& what);
std::unique_ptr<OffloadStore> make_host_store(int64_t bytes, at::Device device);

/// Offloaded state of one rank: a bucket's elements of a kind are in memory only between
/// fetch() (or create()) and store() or drop().
class Offload {
 public:
  /// `states`: the moments that there are. Throws FileError where a disk has no room.
  Offload(const Layout& layout, const OffloadOptions& options, at::Device device,
          at::ScalarType compute_dtype, const std::vector<optim::StateSpec>& states);
  /// Waits for the transfers under way: stores read and write memory that goes with this.
  ~Offload();
  Offload(const Offload&) = delete;
  Offload& operator=(const Offload&) = delete;

  /// Starts bringing a bucket's elements into memory, or finds memory for new ones.
  void fetch(Kind kind, int64_t bucket);
  void create(Kind kind, int64_t bucket);
  /// A bucket's elements that the rank keeps, once they are in memory; `moment`: its index.
  at::Tensor here(Kind kind, int64_t bucket, size_t moment = 0);
  /// Starts writing a bucket's elements.
  void store(Kind kind, int64_t bucket);
  void drop(Kind kind, int64_t bucket);
  /// Forgets all elements in memory, as after an error.
  void forget();

  /// A bucket's elements in their store, between steps.
  at::Tensor view(Kind kind, int64_t bucket, size_t moment = 0);

  /// Bytes of all offloaded state, of a kind, and of the memory for transfers.
  int64_t num_bytes() const { return num_bytes_; }
  int64_t num_bytes(Kind kind) const;
  int64_t num_pooled_bytes() const { return pool_.num_elements(); }
  /// Time that was spent waiting.
  double wait_seconds = 0;

 private:
  struct Part {
    int64_t begin = 0;  // in bytes
    int64_t bytes = 0;
    at::ScalarType dtype = at::kFloat;
    at::Tensor of(const at::Tensor& bytes_of_entry) const;
  };
  struct Entry {
    int64_t place = 0;
    int64_t bytes = 0;        // a multiple of what a store moves at once
    std::vector<Part> parts;  // one after the other: all moments, or one
    OffloadStore* store = nullptr;
    at::Tensor memory, values;  // of the pool; defined while it is here
    OffloadStore::Wait wait;
  };
  using Key = std::pair<Kind, int64_t>;

  void take(Entry& entry);
  void complete();
  Entry& entry(Kind kind, int64_t bucket);

  std::map<Key, Entry> entries_;
  struct InFlight {
    Key key;
    at::Tensor memory;
    OffloadStore::Wait wait;
  };
  std::deque<InFlight> in_flight_;
  Pool pool_;
  // The first to go: what a GPU copies of the memory above ends with them.
  std::map<Place, std::unique_ptr<OffloadStore>> stores_;
  int64_t num_bytes_ = 0;
};

}  // namespace convoy::parallel
