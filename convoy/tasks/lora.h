#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "convoy/base/options.h"
#include "convoy/checkpoint/adapter_config.h"
#include "convoy/models/language_model.h"
#include "convoy/tasks/task.h"

namespace convoy::tasks {

/// Options of low-rank adapters, by PEFT's names, and the adapter that a run trains or opened.
class Lora {
 public:
  void declare(OptionTable& table);
  /// Throws UsageError where the model to start from is an adapter.
  static void check_is_model(const std::string& start);

  /// Takes the model to start from out of the adapter to go on from, where nobody named one: before
  /// `start` is read. Throws UsageError where `start` is an adapter.
  void find_start(const std::string& start, OptionTable& table);
  /// Throws UsageError on options that have no effect or do not fit together. `task_type` is PEFT's
  /// name of the task; `head`: modules that it trains whole.
  void settle(const std::string& start, const std::string& task_type,
              const std::vector<std::string>& head, OptionTable& table);
  /// Takes the adapter of `folder`, if it holds one.
  void open(const std::filesystem::path& folder);

  explicit operator bool() const { return config_.has_value(); }
  /// Returns the model that is adapted.
  const std::string& base() const { return config_->base; }
  /// Returns the adapter to begin with; "" = a new one.
  const std::filesystem::path& adapter() const { return adapter_; }

  /// Trains without the dropout of the adapters' inputs, which their files keep.
  void disable_dropout() { without_dropout_ = true; }

  /// Makes `run` train adapters: its factory gives them, its files hold them. `layout` is the
  /// model's. Throws UsageError where a target is no matrix of the model.
  void apply(const models::WeightLayout& layout, Run& run);

 private:
  checkpoint::AdapterConfig typed() const;

  int64_t r_ = 0;
  double alpha_ = 8, dropout_ = 0;
  std::string targets_ = "all-linear", rank_pattern_, alpha_pattern_, adapter_name_;
  std::vector<std::string> modules_to_save_;
  bool use_rslora_ = false, without_dropout_ = false;
  std::optional<checkpoint::AdapterConfig> config_;
  std::filesystem::path adapter_;
};

}  // namespace convoy::tasks
