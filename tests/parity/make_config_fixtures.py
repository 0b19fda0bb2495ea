#!/usr/bin/env python3
"""Writes decoder_configs.json: configs of Hugging Face's decoders, with all that follows from the keys given.

Needs torch and transformers (the committed file was made with transformers 5.24.0). decoder_config_test.cpp gives
the same keys to convoy's families, and compares.

    python3 tests/parity/make_config_fixtures.py tests/parity/decoder_configs.json
"""
import json
import sys

from transformers import AutoConfig

YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 64, "beta_fast": 8.0,
        "beta_slow": 1.0, "mscale": 1.0, "mscale_all_dim": 1.0, "llama_4_scaling_beta": 0.3}
SPELLINGS = [dict(rope_theta=5000.0), dict(rope_theta=5000.0, rope_scaling={"rope_type": "linear", "factor": 2.0}),
             dict(rope_parameters={"rope_type": "linear", "factor": 2.0, "rope_theta": 300.0})]
DEEP = dict(num_hidden_layers=9)
# Keys given to each family, beside none.
GIVEN = {
    "llama": SPELLINGS,
    "qwen2": [dict(use_sliding_window=True, max_window_layers=3, **DEEP), *SPELLINGS],
    "qwen3": [dict(use_sliding_window=True, max_window_layers=3, **DEEP)],
    "qwen3_5_moe_text": [dict(full_attention_interval=3, **DEEP)],
    "qwen3_next": [dict(full_attention_interval=3, mlp_only_layers=[1], **DEEP), dict(partial_rotary_factor=0.5, rope_theta=300.0)],
    "qwen3_5_text": [dict(full_attention_interval=3, **DEEP), dict(partial_rotary_factor=0.5, rope_theta=300.0)],
    "olmo_hybrid": [dict(num_hidden_layers=3), dict(num_attention_heads=8, hidden_size=64, num_key_value_heads=2)],
    "mistral": [dict(sliding_window=8, **DEEP), dict(sliding_window=None)],
    "ministral3": [dict(rope_theta=5000.0, rope_scaling=YARN), dict(rope_parameters={**YARN, "rope_theta": 300.0})],
    "gemma2": [DEEP],
    "gemma3_text": [DEEP, dict(sliding_window_pattern=4, **DEEP), dict(rope_theta=5000.0, rope_local_base_freq=70.0)],
    "gemma4_text": [DEEP, dict(attention_k_eq_v=True, num_global_key_value_heads=2, num_kv_shared_layers=3, num_hidden_layers=12),
                    dict(global_head_dim=256, hidden_size_per_layer_input=0)],
    "phi3": [dict(partial_rotary_factor=0.5), dict(sliding_window=8)],
    "smollm3": [DEEP, dict(no_rope_layer_interval=3, use_sliding_window=True, sliding_window=8, **DEEP)],
    "olmo2": [dict(rope_theta=5000.0)],
    "olmo3": [DEEP],
    "granite": [dict(rope_theta=5000.0)],
    "gpt_oss": [DEEP, dict(rope_theta=5000.0)],
    "mixtral": [dict(sliding_window=8, **DEEP), dict(rope_theta=5000.0)],
    "qwen2_moe": [dict(use_sliding_window=True, max_window_layers=3, **DEEP), dict(mlp_only_layers=[1])],
    "qwen3_moe": [dict(use_sliding_window=True, **DEEP)],
    "olmoe": [dict(rope_theta=5000.0)],
}
# Keys of every config of transformers, which no model's numbers depend on, or its version.
COMMON = {"transformers_version", "_name_or_path", "architectures", "chunk_size_feed_forward", "dtype", "id2label",
          "label2id", "is_encoder_decoder", "output_attentions", "output_hidden_states", "problem_type",
          "return_dict", "model_type", "_attn_implementation", "attn_implementation", "use_cache"}


def main():
    out = []
    for family, cases in GIVEN.items():
        for given in [{}, *cases]:
            config = AutoConfig.for_model(family, **json.loads(json.dumps(given))).to_dict()
            out.append({"family": family, "given": given,
                        "config": {key: value for key, value in config.items() if key not in COMMON}})
    with open(sys.argv[1], "w") as file:
        file.write("[\n" + ",\n".join(json.dumps(case, sort_keys=True) for case in out) + "\n]\n")


main()
