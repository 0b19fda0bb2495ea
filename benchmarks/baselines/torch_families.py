"""Baseline: a training step of Hugging Face's BERT-base or T5-small on random tokens, CPU, one thread.
usage: torch_families.py bert|classify|t5 [--bf16] [--batch 4 --block 128 --steps 6]
Prints the median step; AdamW (fused), no dropout, no clipping; 15 % of the tokens are asked for."""
import argparse, statistics, time
import torch
from transformers import (BertConfig, BertForMaskedLM, BertForSequenceClassification, T5Config,
                          T5ForConditionalGeneration)

p = argparse.ArgumentParser()
p.add_argument("model", choices=["bert", "classify", "t5"])
p.add_argument("--bf16", action="store_true")
for k, v in dict(batch=4, block=128, steps=6, answer=29).items():
    p.add_argument("--" + k, type=int, default=v)
a = p.parse_args()
torch.set_num_threads(1)
torch.manual_seed(0)
if a.model == "t5":
    model = T5ForConditionalGeneration(T5Config(dropout_rate=0.0, decoder_start_token_id=0))
else:
    kind = BertForMaskedLM if a.model == "bert" else BertForSequenceClassification
    model = kind(BertConfig(hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0, num_labels=2))
model.train()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
shape, vocab = (a.batch, a.block), model.config.vocab_size
times = []
for step in range(a.steps + 2):
    ids = torch.randint(5, vocab, shape)
    if a.model == "t5":
        labels = torch.randint(5, vocab, (a.batch, a.answer))
    elif a.model == "bert":
        labels = torch.where(torch.rand(shape) < 0.15, ids, -100)
    else:
        labels = torch.randint(0, 2, (a.batch,))
    begin = time.perf_counter()
    with torch.autocast("cpu", torch.bfloat16, enabled=a.bf16):
        loss = model(input_ids=ids, labels=labels).loss
    loss.backward()
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    times.append(time.perf_counter() - begin)
print(f"{a.model} step={statistics.median(times[2:]) * 1e3:.0f}ms loss={loss.item():.3f}")
