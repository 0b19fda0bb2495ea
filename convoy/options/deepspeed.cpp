#include "convoy/options/deepspeed.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>
#include <set>

#include "convoy/base/error.h"
#include "convoy/base/files.h"
#include "convoy/base/json.h"
#include "convoy/base/text.h"

namespace convoy::options {

namespace {

namespace fs = std::filesystem;
using Values = std::map<std::string, std::string>;

/// Treatment of a key.
struct Rule {
  const char* key;
  const char* option = nullptr;  ///< takes the value; null = none does
  const char* why = "";          ///< it is without effect, unless `refused`
  /// Values in DeepSpeed's words, with ours; empty = as it is. Others are refused.
  Values values = {};
  bool refused = false;  ///< unless it is off
  bool others = false;   ///< values that are not listed stay as they are
};

constexpr const char* kPlanned = "the step's program determines when to gather and reduce";
constexpr const char* kMeasured = "convoy always logs times, memory and waiting";
constexpr const char* kScaled = "the loss scale is always dynamic";
constexpr const char* kBuffers = "buffers are planned";

const std::vector<Rule>& rules() {
  static const std::vector<Rule> all{
      {"train_micro_batch_size_per_gpu", "train.per_device_train_batch_size"},
      {"gradient_accumulation_steps", "train.gradient_accumulation_steps"},
      {"train_batch_size", "train.global_batch_size"},
      {"gradient_clipping", "train.max_grad_norm"},
      {"steps_per_print", "train.logging_steps"},
      {"optimizer.type",
       "train.optim",
       "",
       {{"Adam", "adamw_torch"},
        {"AdamW", "adamw_torch"},
        {"FusedAdam", "adamw_torch"},
        {"DeepSpeedCPUAdam", "adamw_torch"},
        {"Lion", "lion_32bit"},
        {"FusedLion", "lion_32bit"}}},
      {"optimizer.params.lr", "train.learning_rate"},
      {"optimizer.params.betas.0", "train.adam_beta1"},
      {"optimizer.params.betas.1", "train.adam_beta2"},
      {"optimizer.params.eps", "train.adam_epsilon"},
      {"optimizer.params.weight_decay", "train.weight_decay"},
      {"optimizer.params.adam_w_mode",
       nullptr,
       "AdamW decays weights, as adam_w_mode says",
       {{"true", ""}}},
      {"optimizer.params.torch_adam", nullptr, "there is one AdamW"},
      {"optimizer.params.bias_correction", nullptr, "bias is always corrected", {{"true", ""}}},
      {"optimizer.params.amsgrad", nullptr, "amsgrad is not supported", {}, true},
      {"scheduler.type",
       "train.lr_scheduler_type",
       "",
       {{"WarmupLR", "constant_with_warmup"},
        {"WarmupDecayLR", "linear"},
        {"WarmupCosineLR", "cosine"}}},
      {"scheduler.params.warmup_min_lr", nullptr, "warm-up starts at 0", {{"0", ""}, {"0.0", ""}}},
      {"scheduler.params.warmup_max_lr", "train.learning_rate"},
      {"scheduler.params.warmup_num_steps", "train.warmup_steps"},
      {"scheduler.params.total_num_steps", "train.max_steps"},
      {"scheduler.params.warmup_type", nullptr, "warm-up is linear"},
      {"fp16.enabled", "train.fp16"},
      {"fp16.auto_cast", nullptr, "layers choose their types"},
      {"fp16.loss_scale", nullptr, kScaled, {{"0", ""}, {"0.0", ""}}},
      {"fp16.initial_scale_power", nullptr, kScaled},
      {"fp16.loss_scale_window", nullptr, kScaled},
      {"fp16.hysteresis", nullptr, kScaled},
      {"fp16.consecutive_hysteresis", nullptr, kScaled},
      {"fp16.min_loss_scale", nullptr, kScaled},
      {"bf16.enabled", "train.bf16"},
      {"bf16.immediate_grad_update", nullptr, "gradients are fp32"},
      {"zero_optimization.stage", "parallel.zero"},
      {"zero_optimization.allgather_partitions", nullptr, kPlanned},
      {"zero_optimization.allgather_bucket_size", nullptr, "bucket_cap_mb is the size"},
      {"zero_optimization.reduce_bucket_size", nullptr, "bucket_cap_mb is the size"},
      {"zero_optimization.overlap_comm", nullptr, "communication always overlaps"},
      {"zero_optimization.reduce_scatter", nullptr, kPlanned},
      {"zero_optimization.contiguous_gradients", nullptr, "gradients always are"},
      {"zero_optimization.round_robin_gradients", nullptr, kPlanned},
      {"zero_optimization.sub_group_size", nullptr, kPlanned},
      {"zero_optimization.load_from_fp32_weights", nullptr, "masters are saved"},
      {"zero_optimization.elastic_checkpoint", nullptr, "checkpoints fit any number of ranks"},
      {"zero_optimization.legacy_stage1", nullptr, kPlanned},
      {"zero_optimization.ignore_unused_parameters", nullptr, "unused parameters are no error"},
      {"zero_optimization.cpu_offload",
       "parallel.offload_optimizer",
       "",
       {{"true", "cpu"}, {"false", "none"}}},
      {"zero_optimization.offload_optimizer.device",
       "parallel.offload_optimizer",
       "",
       {{"none", "none"}, {"cpu", "cpu"}, {"nvme", "disk"}}},
      {"zero_optimization.offload_optimizer.nvme_path", "parallel.offload_dir"},
      {"zero_optimization.offload_optimizer.pin_memory", nullptr, kBuffers},
      {"zero_optimization.offload_optimizer.buffer_count", nullptr, kBuffers},
      {"zero_optimization.offload_optimizer.fast_init", nullptr, kBuffers},
      {"zero_optimization.offload_optimizer.pipeline_read", nullptr, kPlanned},
      {"zero_optimization.offload_optimizer.pipeline_write", nullptr, kPlanned},
      {"zero_optimization.offload_optimizer.ratio",
       nullptr,
       "all state is offloaded",
       {{"1", ""}, {"1.0", ""}}},
      {"zero_optimization.offload_param.device",
       "parallel.offload_parameters",
       "",
       {{"none", "none"}, {"cpu", "cpu"}, {"nvme", "disk"}}},
      {"zero_optimization.offload_param.nvme_path", "parallel.offload_dir"},
      {"zero_optimization.offload_param.pin_memory", nullptr, kBuffers},
      {"zero_optimization.offload_param.buffer_count", nullptr, kBuffers},
      {"zero_optimization.offload_param.buffer_size", nullptr, kBuffers},
      {"zero_optimization.offload_param.max_in_cpu", nullptr, kBuffers},
      {"zero_optimization.stage3_max_live_parameters", nullptr, "prefetch decides"},
      {"zero_optimization.stage3_max_reuse_distance", nullptr, "reshard_after_forward decides"},
      {"zero_optimization.stage3_prefetch_bucket_size", nullptr, "prefetch decides"},
      {"zero_optimization.stage3_param_persistence_threshold", nullptr, "zero_keep_mb decides"},
      {"zero_optimization.stage3_gather_16bit_weights_on_model_save", nullptr,
       "the model is saved whole at the end"},
      {"zero_optimization.stage3_gather_fp16_weights_on_model_save", nullptr,
       "the model is saved whole at the end"},
      {"zero_optimization.zero_hpz_partition_size",
       "parallel.shard_ranks",
       "",
       {{"1", "all"}},
       false,
       true},
      {"zero_optimization.mics_shard_size",
       "parallel.shard_ranks",
       "",
       {{"-1", "all"}},
       false,
       true},
      {"zero_optimization.zero_quantized_weights", nullptr, "messages are not quantized", {}, true},
      {"zero_optimization.zero_quantized_gradients",
       nullptr,
       "messages are not quantized",
       {},
       true},
      {"zero_optimization.zero_quantized_nontrainable_weights",
       nullptr,
       "messages are not quantized",
       {},
       true},
      {"tensor_parallel.autotp_size", "parallel.tensor_parallel_size"},
      {"sequence_parallel_size", nullptr, "try context_parallel_size", {{"1", ""}}},
      {"zero_allow_untested_optimizer", nullptr, "all optimizers are tested"},
      {"zero_force_ds_cpu_optimizer", nullptr, "there is one AdamW"},
      {"prescale_gradients", nullptr, "sums are divided once, after reducing", {{"false", ""}}},
      {"gradient_predivide_factor", nullptr, "sums are divided once", {{"1", ""}, {"1.0", ""}}},
      {"communication_data_type",
       nullptr,
       "gradients are reduced in fp32",
       {{"fp32", ""}, {"float32", ""}}},
      {"sparse_gradients", nullptr, "gradients are dense", {}, true},
      {"disable_allgather", nullptr, kPlanned},
      {"wall_clock_breakdown", nullptr, kMeasured},
      {"memory_breakdown", nullptr, kMeasured},
      {"dump_state", nullptr, "--print-config prints the options"},
      {"tensorboard.enabled", "train.report_to", "", {{"true", "tensorboard"}, {"false", "none"}}},
  };
  return all;
}

/// Part of the file that has no effect, or is refused as a whole.
struct Part {
  const char* key;
  const char* why;
  bool refused;  ///< unless its "enabled" is false
};

constexpr Part kParts[] = {
    {"zero_optimization.aio", "offload always reads and writes ahead", false},
    {"activation_checkpointing", "gradient_checkpointing keeps the inputs of blocks only", false},
    {"aio", "offload always reads and writes ahead", false},
    {"flops_profiler", kMeasured, false},
    {"comms_logger", kMeasured, false},
    {"wandb", "log.jsonl has the same values", false},
    {"csv_monitor", "log.jsonl has the same values", false},
    {"comet", "log.jsonl has the same values", false},
    {"checkpoint", "checkpoints have one format", false},
    {"data_types", "gradients are accumulated in fp32", false},
    {"amp", "NVIDIA's apex is not used; try bf16", true},
    {"pipeline", "try pipeline_parallel_size", true},
    {"elasticity", "a job goes on with any number of ranks; try convoy launch --max-restarts",
     true},
    {"autotuning", "try convoy plan", true},
    {"compression_training", "it is not supported", true},
    {"data_efficiency", "it is not supported", true},
    {"curriculum_learning", "it is not supported", true},
    {"progressive_layer_drop", "it is not supported", true},
    {"sparse_attention", "it is not supported", true},
    {"quantize_training", "it is not supported", true},
    {"eigenvalue", "it is not supported", true},
};

/// Value as the text of an option.
std::string plain(const Json& value) {
  return value.is_string() ? value.get<std::string>() : value.dump();
}

bool is_off(const Json& value) {
  return value.is_null() || value == false || value == 0 || value == "auto";
}

class Reader {
 public:
  explicit Reader(const fs::path& file)
      : file_(file.string()), text_(read_regular_file(file)), json_(parse_json(text_, file_)) {
    refuse_doubles();
  }

  DeepSpeedOptions read() {
    if (!json_.is_object()) fail<UsageError>("deepspeed", "{} holds no object", file_);
    walk(json_, "");
    // Three numbers of which one follows from the others and the ranks.
    const auto has = [&](const char* option) {
      return std::any_of(out_.entries.begin(), out_.entries.end(),
                         [&](const auto& entry) { return entry.option == option; });
    };
    if (has("train.global_batch_size") && has("train.gradient_accumulation_steps")) {
      check_batches();
      refuse_open_micro_batch();
      std::erase_if(out_.entries, [](const auto& entry) {
        return entry.option == "train.gradient_accumulation_steps";
      });
      out_.notes.push_back(
          "gradient_accumulation_steps follows from train_batch_size and the ranks");
    }
    return std::move(out_);
  }

 private:
  /// Throws for a key that is there twice, which JSON allows.
  void refuse_doubles() const {
    std::vector<std::set<std::string>> names;
    std::string doubled;
    const auto parsed = Json::parse(text_, [&](int, Json::parse_event_t event, Json& value) {
      if (event == Json::parse_event_t::object_start) names.emplace_back();
      if (event == Json::parse_event_t::object_end) names.pop_back();
      if (event == Json::parse_event_t::key && !names.back().insert(value).second) doubled = value;
      return true;
    });
    if (!doubled.empty()) refuse(doubled, "stands twice in one object");
  }

  /// Checks that a step's batch is micro-batch times accumulation times ranks.
  void check_batches() const {
    const auto number = [&](const char* key) {
      const auto found = json_.find(key);
      return found != json_.end() && found->is_number_integer() ? found->get<int64_t>() : 0;
    };
    const auto batch = number("train_batch_size");
    const auto micro = number("train_micro_batch_size_per_gpu");
    const auto steps = number("gradient_accumulation_steps");
    if (batch <= 0 || micro <= 0 || steps <= 0 || batch % (micro * steps) == 0) return;
    refuse("train_batch_size",
           fmt::format("= {} is no multiple of train_micro_batch_size_per_gpu = {} times "
                       "gradient_accumulation_steps = {}",
                       batch, micro, steps));
  }

  /// Throws where the micro-batch is left out: DeepSpeed derives it from the number of ranks, which
  /// a file does not know, where the options here would derive the accumulation.
  void refuse_open_micro_batch() const {
    const auto micro = json_.find("train_micro_batch_size_per_gpu");
    if (micro != json_.end() && !micro->is_null()) return;
    const auto batch = json_["train_batch_size"].dump();
    const auto steps = json_["gradient_accumulation_steps"].dump();
    refuse("gradient_accumulation_steps",
           fmt::format("= {0} and train_batch_size = {1} leave train_micro_batch_size_per_gpu to "
                       "the number of ranks; try to say it, {1} / ({0} x ranks), or \"auto\" to "
                       "take per_device_train_batch_size",
                       steps, batch));
  }

  void walk(const Json& json, const std::string& before) {
    for (const auto& [name, value] : json.items()) {
      const auto key = before.empty() ? name : before + "." + name;
      if (name.starts_with("//") || name == "_comment") continue;
      const auto part = std::find_if(std::begin(kParts), std::end(kParts),
                                     [&](const Part& p) { return key == p.key; });
      if (part != std::end(kParts)) {
        take_part(*part, value);
      } else if (key == "optimizer.params.betas") {
        take_betas(key, value);
      } else if (value.is_object()) {
        if (is_rule(key)) refuse(key, "is an object; expected a value");
        walk(value, key);
      } else if (holds_rules(key)) {
        if (value != "auto") refuse(key, fmt::format("= {}; expected an object", value.dump()));
      } else {
        take(key, value);
      }
    }
  }

  static bool is_rule(const std::string& key) {
    return std::any_of(rules().begin(), rules().end(), [&](const Rule& r) { return key == r.key; });
  }
  static bool holds_rules(const std::string& key) {
    return std::any_of(rules().begin(), rules().end(), [&](const Rule& r) {
      return std::string_view(r.key).starts_with(key + ".");
    });
  }

  void take_betas(const std::string& key, const Json& value) {
    if (value.is_null() || value == "auto") return;
    if (!value.is_array() || value.size() != 2) {
      refuse(key, fmt::format("= {}; expected a list of two numbers, or \"auto\"", value.dump()));
    }
    for (size_t i = 0; i < 2; ++i) take(fmt::format("{}.{}", key, i), value[i]);
  }

  void take_part(const Part& part, const Json& value) {
    if (value.is_object() && value.empty()) return;
    const bool off =
        is_off(value) || (value.is_object() && is_off(value.value("enabled", Json(true))));
    if (off) return;
    if (part.refused) refuse(part.key, fmt::format("cannot be had here: {}", part.why));
    out_.notes.push_back(fmt::format("{}: {}", part.key, part.why));
  }

  void take(std::string key, const Json& value) {
    constexpr std::string_view kOld = "bfloat16.";  // what DeepSpeed called it first, and takes
    if (key.starts_with(kOld)) key.replace(0, kOld.size(), "bf16.");
    if (key.starts_with("tensorboard.") && key != "tensorboard.enabled") return;
    const auto& all = rules();
    const auto rule =
        std::find_if(all.begin(), all.end(), [&](const Rule& r) { return key == r.key; });
    if (rule == all.end()) refuse(key, "is no key of DeepSpeed's that convoy knows" + suggest(key));
    if (value.is_null() || value == "auto") return;
    auto text = plain(value);
    if (rule->refused) {
      if (is_off(value)) return;
      refuse(key, fmt::format("= {} cannot be had here: {}", text, rule->why));
    }
    if (!rule->values.empty()) {
      const auto found = rule->values.find(text);
      if (found != rule->values.end()) {
        text = found->second;
      } else if (!rule->others) {
        std::vector<std::string> names;
        for (const auto& [name, ours] : rule->values) names.push_back(name);
        refuse(key, fmt::format("= {} cannot be had here{}{}; expected {}", text,
                                rule->why[0] == 0 ? "" : ": ", rule->why, join(names, " or ")));
      }
    }
    if (rule->option == nullptr) {
      if (rule->values.empty()) out_.notes.push_back(fmt::format("{}: {}", key, rule->why));
      return;
    }
    out_.entries.push_back({key, rule->option, text});
  }

  std::string suggest(const std::string& key) const {
    const auto name = key.substr(key.rfind('.') + 1);
    for (const auto& rule : rules()) {
      const std::string known = rule.key;
      if (known.substr(known.rfind('.') + 1) == name)
        return fmt::format(", did you mean {}?", known);
    }
    return "";
  }

  [[noreturn]] void refuse(const std::string& key, const std::string& what) const {
    fail<UsageError>("deepspeed", "{}:{}: {} {}", file_, line_of(key), key, what);
  }

  /// Returns the line of a nested key: each of its names is searched for behind the one before.
  int64_t line_of(const std::string& key) const {
    size_t at = 0;
    for (const auto& name : split(key, '.')) {
      const auto found = text_.find('"' + name + '"', at);
      if (found != std::string::npos) at = found;
    }
    return 1 + std::count(text_.begin(), text_.begin() + static_cast<std::ptrdiff_t>(at), '\n');
  }

  std::string file_, text_;
  Json json_;
  DeepSpeedOptions out_;
};

}  // namespace

void DeepSpeedOptions::apply(OptionTable& table, const std::string& file) const {
  for (const auto& [key, option, value] : entries) {
    const auto* known = table.find(option);
    const auto before = known->plain();
    const bool said = table.asked_for(option);
    table.set(option, value, file + ": " + key);
    if (said && table.find(option)->plain() != before) {
      fail<UsageError>("deepspeed",
                       "{}: {} = {}, but {} is {}; try \"auto\" in the file, or one value", file,
                       key, value, known->name, before);
    }
  }
}

DeepSpeedOptions read_deepspeed(const fs::path& file) {
  return Reader(file).read();
}

std::string take_deepspeed(const std::string& file, OptionTable& table) {
  const auto asked = read_deepspeed(file);
  asked.apply(table, file);
  if (asked.notes.empty()) return "";
  return fmt::format("{}: without effect here: {}", file, join(asked.notes, "; "));
}

}  // namespace convoy::options
