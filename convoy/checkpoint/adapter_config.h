#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "convoy/base/json.h"

namespace convoy::checkpoint {

inline constexpr const char* kAdapterConfig = "adapter_config.json";
/// Beginning of names in PEFT's files, and ends of those of an adapter's two matrices.
inline constexpr std::string_view kPeftPrefix = "base_model.model.";
inline constexpr std::string_view kLoraA = ".lora_A.weight", kLoraB = ".lora_B.weight";
/// End of the name of a module's matrix.
inline constexpr std::string_view kWeightEnd = ".weight";
/// Value of `targets` that means every matrix but the output.
inline constexpr const char* kAllLinear = "all-linear";

/// Whether `module` is `target`, or the last part of its name is.
bool ends_with_module(const std::string& module, const std::string& target);
/// Whether the parameter or module `name` is `module`, or lies in one of that name.
bool lies_in_module(const std::string& name, const std::string& module);

/// PEFT's LoraConfig: which weights of a model have adapters, and of which rank.
struct AdapterConfig {
  int64_t r = 8;
  double alpha = 8;  ///< the factor of what is added is alpha / r
  double dropout = 0;
  bool use_rslora = false;  ///< alpha / sqrt(r) instead (Kalajdzievski, 2023)
  /// Modules with an adapter: names or their ends, such as q_proj; or a regular expression of whole
  /// names; or "all-linear" alone.
  std::vector<std::string> targets{kAllLinear};
  bool is_regex = false;
  /// Modules that are trained whole, by the ends of their names.
  std::vector<std::string> modules_to_save;
  /// Ranks and alphas that differ from `r` and `alpha`, by regular expressions of the ends of
  /// names.
  std::map<std::string, int64_t> rank_pattern;
  std::map<std::string, double> alpha_pattern;
  std::string base;       ///< folder of the model that it adapts
  std::string task_type;  ///< PEFT's: CAUSAL_LM, SEQ_CLS, SEQ_2_SEQ_LM; "" = none
  bool fan_in_fan_out = false;

  int64_t rank_of(const std::string& module) const;
  double scale_of(const std::string& module) const;
  /// Whether `module` is a target. Throws UsageError on a text that is no regular expression.
  bool is_target(const std::string& module) const;
  /// Whether the parameter or module `name` is one of modules_to_save, or lies in one.
  bool is_saved(const std::string& name) const;
};

/// Whether `folder` holds an adapter.
bool is_adapter(const std::filesystem::path& folder);

/// Adapter of `folder`. Throws FileError: no adapter there, another kind of one, or a key with a
/// value that changes numbers and is not known.
AdapterConfig read_adapter_config(const std::filesystem::path& folder);

/// Returns the content of adapter_config.json.
Json to_json(const AdapterConfig& config);

/// Throws FileError unless `folder` holds the model that an adapter is of, with the weights that it
/// was trained beside.
void check_base(const std::filesystem::path& folder, const std::string& adapter);

/// `folder` where it has a config.json, else that of the model which the adapter in it is of.
/// Throws FileError where that is not there.
std::filesystem::path config_folder(const std::filesystem::path& folder);

}  // namespace convoy::checkpoint
