#include "convoy/options/deepspeed_keys.h"

#include "convoy/parallel/knobs.h"

namespace convoy::options {

namespace {

constexpr const char* kPlanned = "the step's program determines when to gather and reduce";
constexpr const char* kMeasured = "convoy always logs times, memory and waiting";
constexpr const char* kScaled = "the loss scale is always dynamic";
constexpr const char* kBuffers = "buffers are planned";

/// Keys whose values no knob of a step takes.
std::vector<DeepSpeedRule> other_rules() {
  return {
      {"gradient_accumulation_steps", "train.gradient_accumulation_steps"},
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
       "",
       "AdamW decays weights, as adam_w_mode says",
       {{"true", ""}}},
      {"optimizer.params.torch_adam", "", "there is one AdamW"},
      {"optimizer.params.bias_correction", "", "bias is always corrected", {{"true", ""}}},
      {"optimizer.params.amsgrad", "", "amsgrad is not supported", {}, true},
      {"scheduler.type",
       "train.lr_scheduler_type",
       "",
       {{"WarmupLR", "constant_with_warmup"},
        {"WarmupDecayLR", "linear"},
        {"WarmupCosineLR", "cosine"}}},
      {"scheduler.params.warmup_min_lr", "", "warm-up starts at 0", {{"0", ""}, {"0.0", ""}}},
      {"scheduler.params.warmup_max_lr", "train.learning_rate"},
      {"scheduler.params.warmup_num_steps", "train.warmup_steps"},
      {"scheduler.params.total_num_steps", "train.max_steps"},
      {"scheduler.params.warmup_type", "", "warm-up is linear"},
      {"fp16.enabled", "train.fp16"},
      {"fp16.auto_cast", "", "layers choose their types"},
      {"fp16.loss_scale", "", kScaled, {{"0", ""}, {"0.0", ""}}},
      {"fp16.initial_scale_power", "", kScaled},
      {"fp16.loss_scale_window", "", kScaled},
      {"fp16.hysteresis", "", kScaled},
      {"fp16.consecutive_hysteresis", "", kScaled},
      {"fp16.min_loss_scale", "", kScaled},
      {"bf16.enabled", "train.bf16"},
      {"bf16.immediate_grad_update", "", "gradients are fp32"},
      {"zero_optimization.allgather_partitions", "", kPlanned},
      {"zero_optimization.allgather_bucket_size", "", "bucket_cap_mb is the size"},
      {"zero_optimization.reduce_bucket_size", "", "bucket_cap_mb is the size"},
      {"zero_optimization.overlap_comm", "", "communication always overlaps"},
      {"zero_optimization.reduce_scatter", "", kPlanned},
      {"zero_optimization.contiguous_gradients", "", "gradients always are"},
      {"zero_optimization.round_robin_gradients", "", kPlanned},
      {"zero_optimization.sub_group_size", "", kPlanned},
      {"zero_optimization.load_from_fp32_weights", "", "masters are saved"},
      {"zero_optimization.elastic_checkpoint", "", "checkpoints fit any number of ranks"},
      {"zero_optimization.legacy_stage1", "", kPlanned},
      {"zero_optimization.ignore_unused_parameters", "", "unused parameters are no error"},
      {"zero_optimization.offload_optimizer.pin_memory", "", kBuffers},
      {"zero_optimization.offload_optimizer.buffer_count", "", kBuffers},
      {"zero_optimization.offload_optimizer.fast_init", "", kBuffers},
      {"zero_optimization.offload_optimizer.pipeline_read", "", kPlanned},
      {"zero_optimization.offload_optimizer.pipeline_write", "", kPlanned},
      {"zero_optimization.offload_optimizer.ratio",
       "",
       "all state is offloaded",
       {{"1", ""}, {"1.0", ""}}},
      {"zero_optimization.offload_param.pin_memory", "", kBuffers},
      {"zero_optimization.offload_param.buffer_count", "", kBuffers},
      {"zero_optimization.offload_param.buffer_size", "", kBuffers},
      {"zero_optimization.offload_param.max_in_cpu", "", kBuffers},
      {"zero_optimization.stage3_max_live_parameters", "", "prefetch decides"},
      {"zero_optimization.stage3_max_reuse_distance", "", "reshard_after_forward decides"},
      {"zero_optimization.stage3_prefetch_bucket_size", "", "prefetch decides"},
      {"zero_optimization.stage3_param_persistence_threshold", "", "zero_keep_mb decides"},
      {"zero_optimization.stage3_gather_16bit_weights_on_model_save", "",
       "the model is saved whole at the end"},
      {"zero_optimization.stage3_gather_fp16_weights_on_model_save", "",
       "the model is saved whole at the end"},
      {"zero_optimization.zero_quantized_weights", "", "messages are not quantized", {}, true},
      {"zero_optimization.zero_quantized_gradients", "", "messages are not quantized", {}, true},
      {"zero_optimization.zero_quantized_nontrainable_weights",
       "",
       "messages are not quantized",
       {},
       true},
      {"sequence_parallel_size", "", "try context_parallel_size", {{"1", ""}}},
      {"zero_allow_untested_optimizer", "", "all optimizers are tested"},
      {"zero_force_ds_cpu_optimizer", "", "there is one AdamW"},
      {"prescale_gradients", "", "sums are divided once, after reducing", {{"false", ""}}},
      {"gradient_predivide_factor", "", "sums are divided once", {{"1", ""}, {"1.0", ""}}},
      {"communication_data_type",
       "",
       "gradients are reduced in fp32",
       {{"fp32", ""}, {"float32", ""}}},
      {"sparse_gradients", "", "gradients are dense", {}, true},
      {"disable_allgather", "", kPlanned},
      {"wall_clock_breakdown", "", kMeasured},
      {"memory_breakdown", "", kMeasured},
      {"dump_state", "", "--print-config prints the options"},
      {"tensorboard.enabled", "train.report_to", "", {{"true", "tensorboard"}, {"false", "none"}}},
  };
}

}  // namespace

const std::vector<DeepSpeedRule>& deepspeed_rules() {
  static const auto all = [] {
    auto out = other_rules();
    for (const auto& knob : parallel::knobs()) {
      for (const auto& [key, values, others] : knob.deepspeed) {
        out.push_back({key, knob.key(), "", values, /*refused=*/false, others});
      }
    }
    return out;
  }();
  return all;
}

const std::vector<DeepSpeedPart>& deepspeed_parts() {
  static const std::vector<DeepSpeedPart> all{
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
  return all;
}

}  // namespace convoy::options
