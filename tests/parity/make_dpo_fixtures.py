#!/usr/bin/env python3
"""Writes the fixtures of preference_parity_test.cpp: a tiny Llama, an adapter of it, and what TRL's DPOTrainer logs of
them in 20 steps over a few pairs. Each step reads all pairs, so their order does not matter.

Needs torch, transformers, peft, trl and datasets (the committed files were made with torch 2.15.0, transformers 5.24.0,
peft 0.21.2 and trl 1.16.0, one thread, fp32):

    python3 tests/parity/make_dpo_fixtures.py
"""
import json
import tempfile
from pathlib import Path

import torch
from datasets import Dataset
from peft import LoraConfig, PeftModel, get_peft_model
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast
from trl import DPOConfig, DPOTrainer

HERE = Path(__file__).parent
STEPS = 20
LOGGED = ("loss", "rewards/chosen", "rewards/rejected", "rewards/accuracies", "rewards/margins",
          "logps/chosen", "logps/rejected")
CONFIG = dict(hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4,
              num_key_value_heads=2, max_position_embeddings=128, tie_word_embeddings=True,
              bos_token_id=None, eos_token_id=None, pad_token_id=None, initializer_range=0.1)
TEMPLATE = ("{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
            "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}")


def say(role, content):
    return [{"role": role, "content": content}]


def of_messages(prompt, chosen, rejected):
    return {"prompt": say("user", prompt), "chosen": say("assistant", chosen), "rejected": say("assistant", rejected)}


MESSAGES = [
    of_messages("Who are you?", "I am Otto.", "No."),
    of_messages("Your name?", "Otto, and who wants to know that of me?", "I will not say"),
    of_messages("Say it", "My name is Otto, sir", "Who knows, go away now and do not come back to me again!"),
    of_messages("A long question, which has more words than the others", "Yes", "A long answer, which is cut"),
    of_messages("Hi", "Hello", "Hell"),
]
# The prompt is how both begin.
WHOLE = [{key: row["prompt"] + row[key] for key in ("chosen", "rejected")} for row in MESSAGES]
TEXTS = [
    {"prompt": "The sky is", "chosen": " blue.", "rejected": " a green field, or so they say"},
    {"prompt": "One and one:", "chosen": " two", "rejected": " three"},
    {"prompt": "Otto", "chosen": " is my name", "rejected": "<|im_end|>"},
]
# Tokens merge over the border of prompt and answer.
MERGED = [
    {"prompt": "say ", "chosen": "low", "rejected": "it is so"},
    {"prompt": "say th", "chosen": "at", "rejected": "e name"},
]
IMPLICIT = [{"chosen": row["prompt"] + row["chosen"], "rejected": row["prompt"] + row["rejected"]} for row in TEXTS[:2]]

# The loss "aot" of one pair is that of DPO with smoothed labels, which "sigmoid" does not know.
CASES = {
    "sigmoid": dict(rows=MESSAGES, loss_type="sigmoid", beta=0.1),
    "sharp": dict(rows=MESSAGES, loss_type="sigmoid", beta=0.5, max_length=72),
    "whole": dict(rows=WHOLE, loss_type="sigmoid", beta=0.1),
    "ipo": dict(rows=MESSAGES, loss_type="ipo", beta=0.1),
    "robust": dict(rows=MESSAGES, loss_type="robust", beta=0.1, label_smoothing=0.2),
    "smoothed": dict(rows=MESSAGES, loss_type="aot", beta=0.1, label_smoothing=0.2),
    "texts": dict(rows=TEXTS, loss_type="sigmoid", beta=0.1),
    # The reference is the model with the adapter as it was.
    "adapter": dict(rows=MESSAGES, loss_type="sigmoid", beta=0.1),
    "implicit": dict(rows=IMPLICIT, loss_type="sigmoid", beta=0.1),
    "merged": dict(rows=MERGED, loss_type="sigmoid", beta=0.1),
    # The model with an adapter, and the model as its reference.
    "reference": dict(rows=MESSAGES, loss_type="sigmoid", beta=0.1),
}
ADAPTED = ("adapter", "reference")


def tokenizer_in(folder):
    masks = json.loads((HERE.parent / "chat/masks.json").read_text())
    file = Path(folder) / "tokenizer.json"
    file.write_text(json.dumps(masks["tokenizer"]))
    out = PreTrainedTokenizerFast(tokenizer_file=str(file), bos_token="<s>", eos_token="<|im_end|>",
                                  pad_token="<|endoftext|>")
    out.chat_template = TEMPLATE
    return out


def make_adapter(model, folder):
    adapted = get_peft_model(model, LoraConfig(r=2, lora_alpha=4, target_modules=["q_proj", "v_proj"],
                                               task_type="CAUSAL_LM"))
    for name, weight in adapted.named_parameters():
        if "lora_" in name:
            torch.nn.init.normal_(weight, std=0.1)
    adapted.save_pretrained(folder)
    (HERE / "dpo_adapter.safetensors").write_bytes((folder / "adapter_model.safetensors").read_bytes())
    return json.loads((folder / "adapter_config.json").read_text())


def logged(tokenizer, config, state, case, folder, adapter=None, has_reference=False):
    model, reference = LlamaForCausalLM(config), LlamaForCausalLM(config)
    for one in (model, reference):
        one.load_state_dict(state)
    if adapter:
        model = PeftModel.from_pretrained(model, adapter, is_trainable=True)
    rows = Dataset.from_list(case["rows"])
    options = {key: value for key, value in case.items() if key != "rows"}
    one_by_one = case["loss_type"] == "aot"
    arguments = DPOConfig(
        output_dir=folder, max_steps=STEPS, learning_rate=1e-3, logging_steps=1, report_to="none", use_cpu=True,
        per_device_train_batch_size=1 if one_by_one else len(rows),
        gradient_accumulation_steps=len(rows) if one_by_one else 1,
        gradient_checkpointing=False, bf16=False, save_strategy="no", disable_tqdm=True,
        precompute_ref_log_probs=True, **options)
    trainer = DPOTrainer(model=model, ref_model=reference if has_reference else None, args=arguments, train_dataset=rows,
                         processing_class=tokenizer)
    trainer.train()
    history = [entry for entry in trainer.state.log_history if "loss" in entry]
    assert len(history) == STEPS
    return {name: [float(entry[name]) for entry in history] for name in LOGGED}


def main():
    torch.manual_seed(1)
    out = {"template": TEMPLATE, "cases": {}}
    with tempfile.TemporaryDirectory() as folder:
        tokenizer = tokenizer_in(folder)
        config = LlamaConfig(vocab_size=len(tokenizer), **CONFIG)
        model = LlamaForCausalLM(config)
        model.save_pretrained(folder)
        (HERE / "dpo_llama.safetensors").write_bytes((Path(folder) / "model.safetensors").read_bytes())
        out["config"] = json.loads((Path(folder) / "config.json").read_text())
        state = {name: tensor.clone() for name, tensor in model.state_dict().items()}
        adapter = Path(folder) / "adapter"
        out["adapter_config"] = make_adapter(model, adapter)
        for name, case in CASES.items():
            print(name, flush=True)
            expected = logged(tokenizer, config, state, case, folder, adapter if name in ADAPTED else None,
                              has_reference=name == "reference")
            options = {key: value for key, value in case.items() if key != "rows"}
            if options["loss_type"] == "aot":
                options["loss_type"] = "sigmoid"
            out["cases"][name] = {"rows": case["rows"], "options": options, "expected": expected}
    (HERE / "dpo.json").write_text(json.dumps(out, indent=1) + "\n")


if __name__ == "__main__":
    main()
