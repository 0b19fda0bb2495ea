#pragma once

#include <torch/csrc/distributed/c10d/Store.hpp>

#include <map>
#include <string>
#include <vector>

#include "convoy/comm/group.h"

namespace convoy::comm {

/// A store for ranks that are connected already: what each has set by then goes to all at once, by
/// one collective, and nothing to the job's store, which all ranks of a job ask.
class AllGatherStore : public c10d::Store {
 public:
  /// Time when a rank begins to gather: as it sets a key, or as it first asks for another's.
  enum class Begins { AtSet, AtGet };

  AllGatherStore(Group all, std::string label, Begins begins)
      : all_(std::move(all)), label_(std::move(label)), begins_(begins) {}

  /// Gathers the keys of all ranks, which each rank of the group does once. Ranks that neither set
  /// nor ask for keys call it.
  void gather();

  c10::intrusive_ptr<c10d::Store> clone() override;
  using c10d::Store::set;
  void set(const std::string& key, const std::vector<uint8_t>& value) override;
  std::vector<uint8_t> get(const std::string& key) override;
  bool check(const std::vector<std::string>& keys) override;
  void wait(const std::vector<std::string>& keys) override;
  void wait(const std::vector<std::string>& keys, const std::chrono::milliseconds&) override {
    wait(keys);
  }
  std::vector<std::vector<uint8_t>> multiGet(const std::vector<std::string>& keys) override;
  void multiSet(const std::vector<std::string>& keys,
                const std::vector<std::vector<uint8_t>>& values) override;
  bool hasExtendedApi() const override { return true; }
  int64_t getNumKeys() override { return static_cast<int64_t>(words_.size()); }
  int64_t add(const std::string& key, int64_t value) override;
  bool deleteKey(const std::string& key) override;

 private:
  Group all_;
  std::string label_;
  Begins begins_;
  bool done_ = false;
  std::map<std::string, std::vector<uint8_t>> words_;  ///< its own, then those of all
};

}  // namespace convoy::comm
