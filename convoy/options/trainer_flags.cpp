#include "convoy/options/trainer_flags.h"

namespace convoy::options {

std::vector<OtherFlag> trainer_flags(const std::vector<OtherFlag>& more) {
  const char* no_hub =
      "nothing is uploaded; the output folder is one that the hub takes: try, after the run, "
      "huggingface-cli upload NAME OUTPUT_DIR";
  const char* sharded = "states are sharded by ZeRO; try --zero 3, which is full_shard";
  const char* compiled = "kernels are fused already, and nothing is compiled";
  const char* loader = "a thread reads ahead of each rank";
  std::vector<OtherFlag> out{
      {"push_to_hub", OtherFlag::Refused, no_hub},
      {"hub_model_id", OtherFlag::Refused, no_hub},
      {"hub_strategy", OtherFlag::Refused, no_hub},
      {"hub_token", OtherFlag::Refused, no_hub},
      {"hub_private_repo", OtherFlag::Refused, no_hub},
      {"fsdp", OtherFlag::Refused, sharded},
      {"fsdp_config", OtherFlag::Refused, sharded},
      {"accelerator_config", OtherFlag::Refused,
       "its keys are options here; try --dataloader_drop_last, --gradient_accumulation_steps"},
      {"torch_compile", OtherFlag::Switch, compiled},
      {"use_liger_kernel", OtherFlag::Switch, compiled},
      {"dataloader_num_workers", OtherFlag::Value, loader},
      {"dataloader_prefetch_factor", OtherFlag::Value, loader},
      {"dataloader_persistent_workers", OtherFlag::Switch, loader},
      {"dataloader_pin_memory", OtherFlag::Switch, loader},
      {"remove_unused_columns", OtherFlag::Switch,
       "columns that the model does not use are never read"},
      {"group_by_length", OtherFlag::Refused,
       "each epoch has one random order of all rows; try it without"},
      {"ignore_data_skip", OtherFlag::Refused,
       "a resumed run goes on at the very row where it stopped; try it without"},
      {"eval_accumulation_steps", OtherFlag::Value, "metrics are summed up batch by batch"},
      {"prediction_loss_only", OtherFlag::Switch, "evaluations keep no outputs"},
      {"do_predict", OtherFlag::Refused, "try convoy predict OUTPUT_DIR, after the run"},
      {"full_determinism", OtherFlag::Refused, "try --deterministic"},
      {"neftune_noise_alpha", OtherFlag::Refused, "embeddings get no noise; try --dropout"},
      {"optim_args", OtherFlag::Refused, "try --adam_beta1, --adam_beta2, --adam_epsilon"},
      {"gradient_checkpointing_kwargs", OtherFlag::Value, "there is one way to recompute"},
      {"ddp_find_unused_parameters", OtherFlag::Switch,
       "parameters without a gradient are found by themselves"},
      {"save_safetensors", OtherFlag::AlwaysOn, "weights are always saved as safetensors"},
      {"save_only_model", OtherFlag::Refused,
       "a checkpoint is for resuming; try --save_strategy no, which leaves the model alone"},
      {"run_name", OtherFlag::Value, "a run has the name of its folder, --output_dir"},
      {"log_level", OtherFlag::Value, "--quiet prints errors only"},
      {"skip_memory_metrics", OtherFlag::Switch, "memory is always counted, at no cost"},
  };
  out.insert(out.end(), more.begin(), more.end());
  return out;
}

}  // namespace convoy::options
