#include <vector>

#include "convoy/base/error.h"
#include "convoy/base/json_number.h"
#include "convoy/base/text.h"
#include "convoy/models/decoder/decoder.h"

namespace convoy::models {

namespace {

constexpr double kUsualTheta = 10000;
constexpr const char* kWhere = "rotary parameters (rope_parameters or rope_scaling)";

void need(const Json& dict, const std::string& type, std::initializer_list<const char*> keys) {
  for (const char* key : keys) {
    if (dict.contains(key) && !dict.at(key).is_null()) continue;
    fail<UsageError>("models", "{}: {} is missing; rope_type {} needs it", kWhere, key, type);
  }
}

std::vector<double> factors_of(const Json& list, const char* key) {
  std::vector<double> out;
  for (const auto& value : list.is_array() ? list : Json::array()) {
    const auto number = finite_number(value);
    if (!number || *number <= 0) break;
    out.push_back(*number);
  }
  if (list.is_array() && out.size() == list.size()) return out;
  fail<UsageError>("models", "{}: {} = {}; expected a list of numbers above 0", kWhere, key,
                   list.dump());
}

}  // namespace

bool DecoderConfig::has_rope_theta() const {
  if (!family_->reads_old_rotary) return true;
  const bool here = rope_parameters.is_object() && rope_parameters.contains("rope_theta");
  return here ? !rope_parameters.at("rope_theta").is_null() : rope_theta.has_value();
}

// The top level's factor is an older spelling.
int64_t DecoderConfig::rotary_width(LayerType type) const {
  const auto dict = rope_dict(type);
  if (dict["rope_type"] == "proportional") return head_width(type);  // the rest turns by 0
  const auto given = finite_number(dict.value("partial_rotary_factor", Json()));
  return static_cast<int64_t>(static_cast<double>(head_width(type)) *
                              given.value_or(partial_rotary_factor));
}

int64_t DecoderConfig::position_limit() const {
  return rotary().type == "dynamic" ? static_cast<int64_t>(kMostIds) : max_position_embeddings;
}

// A layer with a window has parameters under its own name; old files scale other layers alone.
Json DecoderConfig::rope_dict(LayerType type) const {
  const bool windowed = family_->rotates_by_type && type == LayerType::Windowed;
  Json given = rope_parameters;
  if (family_->rotates_by_type && rope_parameters.is_object()) {
    const auto named = [&](const char* name) { return rope_parameters.value(name, Json()); };
    if (rope_parameters.contains(kFullAttention) || rope_parameters.contains(kWindowedAttention)) {
      given = named(windowed ? kWindowedAttention : kFullAttention);
    } else if (windowed) {
      given = Json();
    }
  }
  Json dict = !rope_scaling.is_null() && !windowed ? rope_scaling : given;
  if (dict.is_null()) dict = Json::object();
  if (!dict.is_object()) {
    fail<UsageError>("models", "{} are {}; expected an object", kWhere, dict.dump());
  }
  if (!dict.contains("rope_type")) dict["rope_type"] = dict.value("type", Json("default"));
  dict.erase("type");
  // The first files of a family with fused weights call it so.
  const auto kind = dict["rope_type"];
  if (family_->fused && (kind == "su" || kind == "yarn")) dict["rope_type"] = "longrope";
  if (!dict.contains("rope_theta") || dict["rope_theta"].is_null()) {
    const bool other = given.is_object() && given.contains("rope_theta");
    const bool local = windowed && defaults_.contains("rope_local_base_freq");
    const double usual = local ? rope_local_base_freq : rope_theta.value_or(kUsualTheta);
    dict["rope_theta"] =
        other && !given["rope_theta"].is_null() ? given["rope_theta"] : Json(usual);
  }
  return dict;
}

nn::RotaryOptions DecoderConfig::rotary(LayerType layer) const {
  static const std::vector<std::string> kTypes{"default", "linear", "dynamic",
                                               "yarn",    "llama3", "longrope"},
      kNewTypes{"default", "proportional"};
  const Json dict = rope_dict(layer);
  nn::RotaryOptions out;
  out.max_length = max_position_embeddings;
  std::optional<double> factor, attention_factor, mscale, mscale_all_dim, beta_fast, beta_slow;
  std::optional<int64_t> original;
  Json partial, short_factors, long_factors, longest;
  Fields known{{"rope_type", &out.type, "", 0, 0, family_->reads_old_rotary ? kTypes : kNewTypes},
               {"rope_theta", &out.theta, "", 1e-9},
               {"factor", &factor, "", 1e-9},
               {"original_max_position_embeddings", &original, "", 1, kMostIds},
               {"attention_factor", &attention_factor, "", 1e-9},
               {"mscale", &mscale, ""},
               {"mscale_all_dim", &mscale_all_dim, ""},
               {"beta_fast", &beta_fast, "", 0},
               {"beta_slow", &beta_slow, "", 0},
               {"truncate", &out.truncate, ""},
               {"low_freq_factor", &out.low_freq_factor, "", 1e-9},
               {"high_freq_factor", &out.high_freq_factor, "", 1e-9},
               {"short_factor", &short_factors, ""},
               {"long_factor", &long_factors, ""},
               {"llama_4_scaling_beta", &out.query_beta, "", 0},
               {"max_position_embeddings", &longest, ""},
               {"partial_rotary_factor", &partial, ""}};
  Json sections, interleaved;
  if (family_->delta == DeltaLayers::Fused) {
    // Parts of a head that turn by time, height and width, which are one position in text.
    known.push_back({"mrope_section", &sections, ""});
    known.push_back({"mrope_interleaved", &interleaved, ""});
  }
  Json rest = dict;
  take_fields(rest, known, kWhere);
  check_fields(known);
  if (!rest.empty()) {
    std::vector<std::string> names;
    for (const auto& field : known) names.push_back(field.name);
    fail<UsageError>("models", "{}: {} is not known{}", kWhere, rest.begin().key(),
                     did_you_mean(rest.begin().key(), names));
  }
  if (family_->fused && out.type != "default" && out.type != "longrope") {
    fail<UsageError>("models",
                     "{}: rope_type {} is not among those of Hugging Face's {}; expected "
                     "default or longrope",
                     kWhere, out.type, family());
  }
  if (out.type == "linear" || out.type == "dynamic") need(dict, out.type, {"factor"});
  if (out.type == "llama3") {
    need(dict, out.type, {"factor", "low_freq_factor", "high_freq_factor"});
    if (out.low_freq_factor == out.high_freq_factor) {
      fail<UsageError>("models", "{}: low_freq_factor and high_freq_factor are both {}", kWhere,
                       out.low_freq_factor);
    }
  }
  out.original_length =
      original_max_position_embeddings.value_or(original.value_or(max_position_embeddings));
  if (out.type == "proportional") {
    out.proportion = finite_number(partial).value_or(partial.is_null() ? 1 : -1);
    if (out.proportion < 0 || out.proportion > 1) {
      fail<UsageError>("models", "{}: partial_rotary_factor = {}; expected between 0 and 1", kWhere,
                       partial.dump());
    }
  } else if (!partial.is_null() && !defaults_.contains("partial_rotary_factor") && partial != 1) {
    fail<UsageError>("models", "{}: partial_rotary_factor = {} is not supported; expected 1",
                     kWhere, partial.dump());
  }
  if (out.query_beta != 0 && !family_->scales_queries) {
    fail<UsageError>("models", "{}: llama_4_scaling_beta = {} has no effect in Hugging Face's {}",
                     kWhere, out.query_beta, family());
  }
  if (out.type == "longrope") {
    need(dict, out.type, {"short_factor", "long_factor"});
    out.short_factors = factors_of(short_factors, "short_factor");
    out.long_factors = factors_of(long_factors, "long_factor");
    out.max_length = out.original_length;  // longer rows are stretched
  }
  out.factor = factor.value_or(static_cast<double>(max_position_embeddings) /
                               static_cast<double>(out.original_length));
  out.attention_factor = attention_factor.value_or(0);
  out.mscale = mscale.value_or(0);
  out.mscale_all_dim = mscale_all_dim.value_or(0);
  if (beta_fast.value_or(0) != 0) out.beta_fast = *beta_fast;
  if (beta_slow.value_or(0) != 0) out.beta_slow = *beta_slow;
  return out;
}

}  // namespace convoy::models
