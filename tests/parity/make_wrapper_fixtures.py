#!/usr/bin/env python3
"""Writes the fixtures of causal_test.cpp for language models inside of models that read images, too.

Needs torch, transformers and safetensors (the committed files were made with torch 2.15.0 and
transformers 5.24.0, one thread, fp32). The models read text only; attention is `eager`.

    python3 tests/parity/make_wrapper_fixtures.py tests/parity [wrapper ...]
"""
import sys

import torch
from transformers import (AutoConfig, Gemma3ForConditionalGeneration, Gemma4ForConditionalGeneration, Mistral3ForConditionalGeneration,
                          Qwen3_5ForConditionalGeneration, Qwen3_5MoeForConditionalGeneration)

from make_causal_fixtures import write
from make_decoder_fixtures import FAMILIES, SCALED, SMALL, add_texts

OTHERS = ("model.vision_tower.", "model.multi_modal_projector.", "model.visual.", "model.embed_vision.")
VISION = dict(hidden_size=8, intermediate_size=10, num_hidden_layers=2, num_attention_heads=2, image_size=8,
              patch_size=4)
QWEN = dict(vision_config=dict(depth=2, hidden_size=8, intermediate_size=10, num_heads=2, out_hidden_size=16,
                               num_position_embeddings=16, patch_size=4), image_token_id=40,
            video_token_id=41, vision_start_token_id=38, vision_end_token_id=39)
# Of each wrapper its class, its keys beside the text part's, the text part's, and variants of these.
WRAPPERS = {
    "gemma3": (Gemma3ForConditionalGeneration,
               dict(vision_config=dict(model_type="siglip_vision_model", **VISION), mm_tokens_per_image=4,
                    image_token_index=40, boi_token_index=38, eoi_token_index=39),
               dict(family="gemma3_text", **FAMILIES["gemma3_text"][0]),
               {"linear": SCALED, "untied": dict(tie_word_embeddings=False)}),
    "gemma4": (Gemma4ForConditionalGeneration,
               dict(vision_config=dict(model_type="gemma4_vision", head_dim=4, num_key_value_heads=2,
                                       position_embedding_size=16, **VISION), image_token_id=40, video_token_id=41,
                    audio_token_id=42, boi_token_id=38, eoi_token_id=39),
               dict(family="gemma4_text", **FAMILIES["gemma4_text"][0]), {"wide": dict(sliding_window=8)}),
    "mistral3": (Mistral3ForConditionalGeneration,
                 dict(vision_config=dict(model_type="pixtral", head_dim=4, **VISION), image_token_index=40),
                 dict(family="ministral3", tie_word_embeddings=False, **FAMILIES["ministral3"][0]),
                 {"windows": dict(sliding_window=3), "tied": dict(tie_word_embeddings=True),
                  "mistral": dict(family="mistral", sliding_window=None,
                                  rope_parameters=SMALL["rope_parameters"])}),
    "qwen3_5": (Qwen3_5ForConditionalGeneration,
                QWEN, dict(family="qwen3_5_text", tie_word_embeddings=False, **FAMILIES["qwen3_5_text"][0]),
                {"tied": dict(tie_word_embeddings=True)}),
    "qwen3_5_moe": (Qwen3_5MoeForConditionalGeneration, QWEN,
                    dict(family="qwen3_5_moe_text", tie_word_embeddings=False, **FAMILIES["qwen3_5_moe_text"][0]),
                    {"tied": dict(tie_word_embeddings=True)}),
}


def config_of(name, family, **text):
    keys = WRAPPERS[name][1]
    tied = text.get("tie_word_embeddings", True)
    return AutoConfig.for_model(name, text_config=dict(model_type=family, **text), tie_word_embeddings=tied,
                                attn_implementation="eager", experts_implementation="eager", **keys)


def of_text(kind):
    """The class whose named parameters are the text part's."""
    def named_parameters(self, *arguments, **more):
        return ((n, v) for n, v in kind.named_parameters(self, *arguments, **more) if not n.startswith(OTHERS))

    return type(kind.__name__, (kind,), {"named_parameters": named_parameters})


def make(kind, config):
    model = kind(config)
    model.__class__ = of_text(kind)
    return model


def main(folder, *names):
    torch.set_num_threads(1)
    for name in names or WRAPPERS:
        kind, _, keys, variants = WRAPPERS[name]
        write(folder, name, lambda **k: config_of(name, **k), lambda config: make(kind, config),
              {**SMALL, **keys}, variants, add_texts([v for v in variants if v not in ("tied", "untied")]))


if __name__ == "__main__":
    main(*(sys.argv[1:] or ["."]))
