"""The other side of finetune.sh: makes a random model, and trains it by transformers' Trainer, all weights or LoRA.

finetune_baseline.py model FOLDER SIZE; finetune_baseline.py train FOLDER SIZE KIND STEPS THREADS
"""
import json
import pathlib
import random
import sys

import torch
from transformers import AutoModelForCausalLM, LlamaConfig, Trainer, TrainingArguments

WORDS = 32000
SIZES = {
    "base": ({"hidden_size": 768, "intermediate_size": 2048, "num_hidden_layers": 12, "num_attention_heads": 12}, 4, 256),
    "large": ({"hidden_size": 2048, "intermediate_size": 5632, "num_hidden_layers": 22, "num_attention_heads": 32,
               "num_key_value_heads": 4}, 1, 512),
}


def rows_of(size):
    draw = random.Random(3)
    _, rows, length = SIZES[size]
    return [[draw.randrange(WORDS) for _ in range(length)] for _ in range(rows)]


def make(folder, size):
    torch.manual_seed(0)
    config = LlamaConfig(vocab_size=WORDS, max_position_embeddings=512, tie_word_embeddings=size == "base", bos_token_id=None,
                         eos_token_id=None, pad_token_id=None, **SIZES[size][0])
    model = AutoModelForCausalLM.from_config(config)
    (model.to(torch.bfloat16) if size == "large" else model).save_pretrained(folder / "model")
    vocabulary = {f"w{i}": i for i in range(WORDS)}
    (folder / "model/tokenizer.json").write_text(json.dumps({
        "version": "1.0", "truncation": None, "padding": None, "added_tokens": [], "normalizer": None,
        "pre_tokenizer": {"type": "WhitespaceSplit"}, "post_processor": None, "decoder": None,
        "model": {"type": "WordLevel", "vocab": vocabulary, "unk_token": "w0"}}))
    (folder / "model/tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "PreTrainedTokenizerFast"}))
    (folder / "text.txt").write_text(" ".join(f"w{i}" for row in rows_of(size) for i in row))


def train(folder, size, kind, steps, threads):
    torch.set_num_threads(threads)
    low = size == "large"
    model = AutoModelForCausalLM.from_pretrained(folder / "model", dtype=torch.bfloat16 if low else torch.float32)
    if kind == "lora":
        from peft import PeftModel
        model = PeftModel.from_pretrained(model, folder / "start", is_trainable=True)
        if low:
            model.enable_input_require_grads()
    rows = [{"input_ids": row, "labels": row} for row in rows_of(size)]
    arguments = TrainingArguments(
        output_dir=folder / "theirs", per_device_train_batch_size=len(rows), num_train_epochs=steps, learning_rate=1e-4,
        lr_scheduler_type="constant", max_grad_norm=0, logging_steps=1, save_strategy="no", report_to=[], use_cpu=True, seed=1,
        bf16=low, gradient_checkpointing=low, disable_tqdm=True)
    trainer = Trainer(model=model, args=arguments, train_dataset=rows)
    result = trainer.train()
    for line in trainer.state.log_history:
        if "loss" in line:
            print("loss", line["loss"])
    print("ms", round(1000 * result.metrics["train_runtime"] / steps))


if __name__ == "__main__":
    command, folder, size, *rest = sys.argv[1:]
    if command == "model":
        make(pathlib.Path(folder), size)
    else:
        train(pathlib.Path(folder), size, rest[0], int(rest[1]), int(rest[2]))
