"""Baseline: GPT-2 124M under DeepSpeed's ZeRO on CPU, 4 x 128 random tokens per rank, AdamW, one thread a rank.
usage: DS_ACCELERATOR=cpu torchrun --nproc-per-node 2 deepspeed_causal.py STAGE [--bf16]
Prints the median step and the peak RSS of rank 0."""
import resource, sys, time
import deepspeed, torch, torch.distributed as dist
from transformers import GPT2Config, GPT2LMHeadModel

torch.set_num_threads(1)
torch.manual_seed(0)
model = GPT2LMHeadModel(GPT2Config(n_positions=128, resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0))
deepspeed.init_distributed("gloo")
engine, *_ = deepspeed.initialize(model=model, model_parameters=model.parameters(), config={
    "train_micro_batch_size_per_gpu": 4,
    "zero_optimization": {"stage": int(sys.argv[1])},
    "bf16": {"enabled": "--bf16" in sys.argv},
    "optimizer": {"type": "AdamW", "params": {"lr": 1e-4, "torch_adam": True}},
    "zero_force_ds_cpu_optimizer": False})
times = []
for step in range(8):
    ids = torch.randint(0, 50257, (4, 128))
    dist.barrier()
    begin = time.perf_counter()
    engine.backward(engine(input_ids=ids, labels=ids).loss)
    engine.step()
    dist.barrier()
    times.append(time.perf_counter() - begin)
median = sorted(times[2:])[3]
if dist.get_rank() == 0:
    print(f"deepspeed zero{sys.argv[1]} step={median * 1e3:.0f}ms "
          f"rss={resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6:.2f}GB", flush=True)
