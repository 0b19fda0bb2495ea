#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace convoy::prepare {

/// Column of texts or whole numbers, in which each distinct value is stored once.
struct Codes {
  std::vector<int32_t> codes;       ///< one per event, an index into `values`; -1 = missing
  std::vector<std::string> values;  ///< in the order of first appearance
};

/// Ranks of the values in raw order: by number when all are whole numbers, else bytewise.
std::vector<int32_t> raw_ranks(const std::vector<std::string>& values);

/// Gives each distinct text a number.
class Interner {
 public:
  explicit Interner(Codes& codes);
  void append(std::string_view value);
  void append_missing() { codes_.codes.push_back(-1); }

 private:
  struct Hash {
    using is_transparent = void;
    size_t operator()(std::string_view text) const { return std::hash<std::string_view>{}(text); }
  };
  Codes& codes_;
  std::unordered_map<std::string, int32_t, Hash, std::equal_to<>> numbers_;
};

}  // namespace convoy::prepare
