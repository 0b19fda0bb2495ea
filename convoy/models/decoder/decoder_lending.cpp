#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <string>

#include "convoy/base/error.h"
#include "convoy/base/json_number.h"
#include "convoy/base/text.h"
#include "convoy/models/decoder/decoder.h"

// Heads that differ by type of layer, and layers that read keys and values of earlier ones.
namespace convoy::models {

namespace {

constexpr const char* kByLayer = "per_layer_config";

/// Width of layer `layer` by name `key` in its entry of per_layer_config; none: it has none.
std::optional<int64_t> width_in(const Json& entry, const char* key, const std::string& where) {
  const auto found = entry.find(key);
  if (found == entry.end() || found->is_null()) return std::nullopt;
  if (const auto number = whole_number<int64_t>(*found); number && *number > 0) return number;
  fail<FileError>("models", "{}: {} has {} = {}; expected a whole number above 0", where, kByLayer,
                  key, found->dump());
}

}  // namespace

int64_t DecoderConfig::num_key_heads(LayerType type) const {
  return keys_are_values(type) ? num_global_key_value_heads.value_or(num_key_heads())
                               : num_key_heads();
}

int64_t DecoderConfig::head_width(LayerType type) const {
  return type == LayerType::Full ? global_head_dim.value_or(head_width()) : head_width();
}

int64_t DecoderConfig::keys_of(int64_t layer) const {
  const int64_t first = num_hidden_layers - num_kv_shared_layers;  // that reads those of others
  if (layer < first) return layer;
  const auto type = layer_type(layer);
  for (int64_t before = first - 1; before >= 0; --before) {
    if (layer_type(before) == type) return before;
  }
  return layer;
}

bool DecoderConfig::lends_keys(int64_t layer) const {
  const int64_t first = num_hidden_layers - num_kv_shared_layers;
  for (int64_t later = std::max(first, layer + 1); later < num_hidden_layers; ++later) {
    if (keys_of(later) == layer) return true;
  }
  return false;
}

int64_t DecoderConfig::feed_forward_width(int64_t layer) const {
  return use_double_wide_mlp && keys_of(layer) != layer ? 2 * intermediate_size : intermediate_size;
}

void DecoderConfig::check_widths(LayerType type) const {
  const int64_t keys = num_key_heads(type), width = head_width(type);
  if (num_attention_heads % keys != 0) {
    const bool own = keys != num_key_heads();
    fail<UsageError>("models", "num_attention_heads = {} does not divide into {} = {}",
                     num_attention_heads,
                     own ? "num_global_key_value_heads" : "num_key_value_heads", keys);
  }
  if (width % 2 != 0) {
    fail<UsageError>("models", "heads are {} wide; the rotary embedding needs an even number",
                     width);
  }
  if (static_cast<double>(width) * static_cast<double>(num_attention_heads) > kWidest) {
    fail<UsageError>("models", "{} heads of {}; expected at most {} in all", num_attention_heads,
                     width, kWidest);
  }
}

void DecoderConfig::check_lending() const {
  if (enable_moe_block) {
    fail<UsageError>("models",
                     "enable_moe_block = true (experts beside the feed-forward) is not supported; "
                     "expected false");
  }
  if (num_kv_shared_layers == 0) return;
  const int64_t first = num_hidden_layers - num_kv_shared_layers;
  if (first < 1) {
    fail<UsageError>("models",
                     "num_kv_shared_layers = {} of num_hidden_layers = {}; expected fewer",
                     num_kv_shared_layers, num_hidden_layers);
  }
  for (int64_t layer = first; layer < num_hidden_layers; ++layer) {
    if (keys_of(layer) != layer) continue;
    fail<UsageError>(
        "models",
        "layer {} reads keys of an earlier layer of its type, and none before layer {} "
        "is of type {}; try fewer num_kv_shared_layers than {}",
        layer, first, name_of(layer_type(layer)), num_kv_shared_layers);
  }
}

void DecoderConfig::take_others(Json& others, const std::string& where) {
  if (!defaults_.contains("global_head_dim") || !others.contains(kByLayer)) return;
  const auto given = others.at(kByLayer);
  others.erase(kByLayer);
  if (!given.is_null() && !given.is_object()) {
    fail<FileError>("models", "{}: {} = {}; expected an object", where, kByLayer, given.dump());
  }
  check_fields(fields());
  check_layers();
  std::map<int64_t, Json> entries;
  for (const auto& [key, entry] : given.items()) {
    int64_t layer = -1;
    const bool is_layer = parse_number(key, layer) && layer >= 0 && layer < num_hidden_layers;
    if (!is_layer || !entry.is_object()) {
      fail<FileError>("models", "{}: {} has {}: {}; expected layers below {}, an object each",
                      where, kByLayer, key, entry.dump(), num_hidden_layers);
    }
    for (const auto& [name, value] : entry.items()) {
      if (name == "head_dim" || name == "num_key_value_heads") continue;
      fail<FileError>("models",
                      "{}: {} gives layer {} a {} of its own, which is not supported; expected "
                      "head_dim and num_key_value_heads",
                      where, kByLayer, layer, name);
    }
    entries[layer] = entry;
  }
  std::optional<int64_t> width, keys;
  for (int64_t layer = num_hidden_layers - 1; layer >= 0; --layer) {
    const auto found = entries.find(layer);
    const Json entry = found == entries.end() ? Json::object() : found->second;
    const auto own_width = width_in(entry, "head_dim", where).value_or(head_width());
    const auto own_keys = width_in(entry, "num_key_value_heads", where).value_or(num_key_heads());
    const bool full = layer_type(layer) == LayerType::Full;
    const auto wanted_width = full ? width.value_or(own_width) : head_width();
    const auto wanted_keys = full ? keys.value_or(own_keys) : num_key_heads();
    if (own_width != wanted_width || own_keys != wanted_keys) {
      fail<FileError>("models",
                      "{}: {} gives layer {} {} key heads of {}, and other layers of type {} {} of "
                      "{}, which is not supported",
                      where, kByLayer, layer, own_keys, own_width, name_of(layer_type(layer)),
                      wanted_keys, wanted_width);
    }
    if (full) {
      width = own_width;
      keys = own_keys;
    }
  }
  global_head_dim = width;
  if (keys && *keys != num_key_heads() && !attention_k_eq_v) {
    fail<FileError>("models",
                    "{}: {} gives layers without a window {} key heads, which is not supported "
                    "without attention_k_eq_v",
                    where, kByLayer, *keys);
  }
  if (attention_k_eq_v) num_global_key_value_heads = keys;
}

Json DecoderConfig::widths_by_layer() const {
  Json own = Json::object(), out = Json::object();
  const auto width = head_width(LayerType::Full), keys = num_key_heads(LayerType::Full);
  if (width != head_width()) own["head_dim"] = width;
  if (keys != num_key_heads()) own["num_key_value_heads"] = keys;
  const auto digits = fmt::format("{}", num_hidden_layers - 1).size();
  for (int64_t layer = 0; layer < num_hidden_layers && !own.empty(); ++layer) {
    if (layer_type(layer) == LayerType::Full) out[fmt::format("{:0{}}", layer, digits)] = own;
  }
  return out;
}

}  // namespace convoy::models
