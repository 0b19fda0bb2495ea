#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace convoy::data {

/// Ids one after the other, in memory or in a mapped file: 32 bits each, or 16 without a sign.
class TokenView {
 public:
  TokenView() = default;
  TokenView(const void* ids, int bytes_each, int64_t size)
      : ids_(static_cast<const std::byte*>(ids)), bytes_each_(bytes_each), size_(size) {}

  int64_t size() const { return size_; }
  int64_t bytes() const { return size_ * bytes_each_; }

  int64_t operator[](int64_t at) const {
    return bytes_each_ == 2 ? load<uint16_t>(at) : load<int32_t>(at);
  }

  /// Copies ids from `begin` on. Returns where the next one goes.
  int64_t* copy(int64_t begin, int64_t count, int64_t* out) const {
    for (int64_t i = 0; i < count; ++i) out[i] = (*this)[begin + i];
    return out + count;
  }

 private:
  /// Headers may leave ids at odd places.
  template <class T>
  int64_t load(int64_t at) const {
    T value;
    std::memcpy(&value, ids_ + at * static_cast<int64_t>(sizeof(T)), sizeof(T));
    return value;
  }

  const std::byte* ids_ = nullptr;
  int bytes_each_ = 4;
  int64_t size_ = 0;
};

}  // namespace convoy::data
