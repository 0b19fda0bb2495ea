"""Baseline: greedy generation with Hugging Face, CPU, one thread; under torchrun over Gloo with tp_plan="auto".
usage: torch_generate.py FOLDER PROMPTS BATCH NEW      PROMPTS: a file with a prompt a line
Prints new tokens per second, loading left out."""
import os, sys, time
import torch
from transformers import AutoModelForCausalLM, GPT2TokenizerFast

folder, prompts, batch, new = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
torch.set_num_threads(1)
ranks = {"tp_plan": "auto"} if "RANK" in os.environ else {}
model = AutoModelForCausalLM.from_pretrained(folder, **ranks).eval()
model.generation_config.eos_token_id = None
tokenizer = GPT2TokenizerFast.from_pretrained(folder)
tokenizer.pad_token, tokenizer.padding_side = "<|endoftext|>", "left"
texts = open(prompts).read().splitlines()
start, tokens = time.perf_counter(), 0
for begin in range(0, len(texts), batch):
    inputs = tokenizer(texts[begin:begin + batch], return_tensors="pt", padding=True)
    with torch.no_grad():
        out = model.generate(**inputs, max_new_tokens=new, do_sample=False,
                             pad_token_id=tokenizer.pad_token_id)
    tokens += out.shape[0] * (out.shape[1] - inputs.input_ids.shape[1])
if os.environ.get("RANK", "0") == "0":
    print(f"{tokens / (time.perf_counter() - start):.2f} tokens/s")
