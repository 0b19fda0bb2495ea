"""The other side of finetune.sh: makes a random model and its data, and trains it with transformers, PEFT or TRL.

finetune_baseline.py model FOLDER SIZE; finetune_baseline.py train FOLDER KIND STEPS THREADS
"""
import json
import pathlib
import random
import sys

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, LlamaConfig, Qwen3MoeConfig, Trainer, TrainingArguments

# A word is a blank and a letter, of which byte-level BPE makes one token.
VOCABULARY, LETTERS = 32000, "abcdefghijklmnopqrstuvwxyz"
FIRST_WORD = 1 + len(LETTERS)
PADDING, END = FIRST_WORD + len(LETTERS), FIRST_WORD + len(LETTERS) + 1
SIZES = {
    "base": ({"hidden_size": 768, "intermediate_size": 2048, "num_hidden_layers": 12, "num_attention_heads": 12,
              "num_key_value_heads": 12}, 4, 256),
    "large": ({"hidden_size": 2048, "intermediate_size": 5632, "num_hidden_layers": 22, "num_attention_heads": 32,
               "num_key_value_heads": 4}, 1, 512),
    # 270 million weights, of which a token reads 100 million.
    "experts": ({"hidden_size": 768, "num_hidden_layers": 8, "num_attention_heads": 12, "num_key_value_heads": 12,
                 "head_dim": 64, "num_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 1536,
                 "norm_topk_prob": True, "experts_implementation": "grouped_mm"}, 4, 256),
}


def rows_of(size):
    draw = random.Random(3)
    _, rows, length = SIZES[size]
    return [[FIRST_WORD + draw.randrange(len(LETTERS)) for _ in range(length)] for _ in range(rows)]


def make(folder, size):
    torch.manual_seed(0)
    config = (Qwen3MoeConfig if size == "experts" else LlamaConfig)(vocab_size=VOCABULARY, max_position_embeddings=512, tie_word_embeddings=size != "large", bos_token_id=None,
                         eos_token_id=END, pad_token_id=None, **SIZES[size][0])
    model = AutoModelForCausalLM.from_config(config)
    (model.to(torch.bfloat16) if size == "large" else model).save_pretrained(folder / size)
    tokens = ["\u0120", *LETTERS, *("\u0120" + letter for letter in LETTERS)]
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    bytes_as_text = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    (folder / size / "tokenizer.json").write_text(json.dumps({
        "version": "1.0", "truncation": None, "padding": None, "normalizer": None, "post_processor": None, "decoder": bytes_as_text,
        "added_tokens": [{"id": id, "content": text, **flags} for text, id in (("<pad>", PADDING), ("</s>", END))],
        "pre_tokenizer": bytes_as_text,
        "model": {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None, "end_of_word_suffix": None,
                  "fuse_unk": False, "byte_fallback": False, "vocab": {token: id for id, token in enumerate(tokens)},
                  "merges": [f"\u0120 {letter}" for letter in LETTERS]}}))
    (folder / size / "tokenizer_config.json").write_text(json.dumps(
        {"tokenizer_class": "PreTrainedTokenizerFast", "pad_token": "<pad>", "eos_token": "</s>"}))
    text = "".join(" " + LETTERS[id - FIRST_WORD] for row in rows_of(size) for id in row)
    (folder / f"{size}.jsonl").write_text(json.dumps({"text": text}) + "\n")
    draw = random.Random(5)

    def words(count):
        return "".join(" " + draw.choice(LETTERS) for _ in range(count))

    (folder / "sft.jsonl").write_text("".join(json.dumps({"prompt": words(100), "completion": words(155)}) + "\n" for _ in range(4)))
    (folder / "packed.jsonl").write_text(
        "".join(json.dumps({"prompt": words(50), "completion": words(77)}) + "\n" for _ in range(8)))
    (folder / "dpo.jsonl").write_text("".join(
        json.dumps({"prompt": words(60), "chosen": words(99), "rejected": words(99)}) + "\n" for _ in range(4)))


def lines_of(file):
    return [json.loads(line) for line in file.read_text().splitlines()]


def trainer_of(folder, kind, steps):
    low = kind == "large"
    size = kind if kind in SIZES else "base"
    options = {"output_dir": folder / "theirs", "num_train_epochs": steps, "learning_rate": 1e-4, "lr_scheduler_type": "constant",
               "max_grad_norm": 0, "logging_steps": 1, "save_strategy": "no", "report_to": [], "use_cpu": True, "seed": 1,
               "bf16": low, "gradient_checkpointing": low, "disable_tqdm": True, "per_device_train_batch_size": 1 if low else 4}
    model = AutoModelForCausalLM.from_pretrained(folder / size, dtype=torch.bfloat16 if low else torch.float32)
    if kind in ("sft", "packed", "dpo"):
        import datasets
        import trl
        data = datasets.Dataset.from_list(lines_of(folder / f"{kind}.jsonl"))
        tokenizer = AutoTokenizer.from_pretrained(folder / size)
        if kind != "dpo":
            return trl.SFTTrainer(model, trl.SFTConfig(max_length=256, packing=kind == "packed", **options), train_dataset=data,
                                  processing_class=tokenizer)
        return trl.DPOTrainer(model, args=trl.DPOConfig(max_length=256, precompute_ref_log_probs=True, **options), train_dataset=data,
                              processing_class=tokenizer)
    if kind in ("lora", "large"):
        from peft import PeftModel
        model = PeftModel.from_pretrained(model, folder / f"{kind}.start", is_trainable=True)
        if low:
            model.enable_input_require_grads()
    rows = [{"input_ids": row, "labels": row} for row in rows_of(size)]
    return Trainer(model=model, args=TrainingArguments(**options), train_dataset=rows)


def train(folder, kind, steps, threads):
    torch.set_num_threads(threads)
    trainer = trainer_of(folder, kind, steps)
    result = trainer.train()
    for line in trainer.state.log_history:
        if "loss" in line:
            print("loss", line["loss"])
    print("ms", round(1000 * result.metrics["train_runtime"] / steps))


if __name__ == "__main__":
    command, folder, what, *rest = sys.argv[1:]
    if command == "model":
        make(pathlib.Path(folder), what)
    else:
        train(pathlib.Path(folder), what, int(rest[0]), int(rest[1]))
