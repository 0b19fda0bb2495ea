#include "convoy/comm/hierarchy/all_gather_store.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "convoy/base/error.h"
#include "convoy/base/json.h"
#include "convoy/comm/to_host.h"

namespace convoy::comm {

void AllGatherStore::gather() {
  if (done_) return;
  done_ = true;
  auto own = Json::to_cbor(Json(words_));
  const auto size = static_cast<int64_t>(own.size());
  const auto sizes = all_.all_gather(at::full({1}, size, at::kLong), label_);
  const Counts counts(sizes.const_data_ptr<int64_t>(),
                      sizes.const_data_ptr<int64_t>() + sizes.numel());
  auto said = at::empty({comm::item<int64_t>(sizes.sum())}, at::kByte);
  all_.all_gather(said, at::from_blob(own.data(), {size}, at::kByte), label_, counts);
  const auto* from = said.const_data_ptr<uint8_t>();
  for (const int64_t count : counts) {
    words_.merge(Json::from_cbor(from, from + count).get<decltype(words_)>());
    from += count;
  }
}

c10::intrusive_ptr<c10d::Store> AllGatherStore::clone() {
  gather();
  return c10::make_intrusive<AllGatherStore>(*this);
}

void AllGatherStore::set(const std::string& key, const std::vector<uint8_t>& value) {
  internal_check(!done_, "comm", "'{}': {} is set after all were gathered", label_, key);
  words_[key] = value;
  if (begins_ == Begins::AtSet) gather();
}

std::vector<uint8_t> AllGatherStore::get(const std::string& key) {
  wait({key});
  return words_.at(key);
}

bool AllGatherStore::check(const std::vector<std::string>& keys) {
  gather();
  return std::all_of(keys.begin(), keys.end(),
                     [&](const std::string& key) { return words_.contains(key); });
}

/// Checks that the keys exist. Throws at once for a missing key: a rank that has not set it by then
/// never will.
void AllGatherStore::wait(const std::vector<std::string>& keys) {
  if (!check(keys)) {
    fail<CommunicationError>("comm", "'{}': a rank did not tell how to reach it", label_);
  }
}

std::vector<std::vector<uint8_t>> AllGatherStore::multiGet(const std::vector<std::string>& keys) {
  std::vector<std::vector<uint8_t>> out;
  out.reserve(keys.size());
  for (const auto& key : keys) out.push_back(get(key));
  return out;
}

void AllGatherStore::multiSet(const std::vector<std::string>& keys,
                              const std::vector<std::vector<uint8_t>>& values) {
  for (size_t i = 0; i < keys.size(); ++i) set(keys[i], values.at(i));
}

int64_t AllGatherStore::add(const std::string& key, int64_t) {
  throw InternalError(
      fmt::format("[comm] '{}': {} is counted, where keys are gathered once", label_, key));
}

bool AllGatherStore::deleteKey(const std::string& key) {
  return words_.erase(key) > 0;
}

}  // namespace convoy::comm
