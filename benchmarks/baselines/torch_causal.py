"""Baseline: GPT-2 or Llama in PyTorch (HF modelling code), synthetic tokens, CPU.
usage: torch_causal.py MODE WORLD [--family llama --layers 12 --embd 768 --heads 12 --block 128 --batch 4 --steps 6 --bf16 --dropout 0.1 --compile]
MODE: single | ddp | fsdp2 | zero1 | tensor (Llama: DTensor's columns and rows, one batch for all ranks), or gpipe | 1f1b: two stages of torch.distributed.pipelining, the first with --first_layers
layers, --micro_batches of --batch rows, a head of its own. A Llama of width 768 has 4 key heads, an MLP of 2048 and a head of its own.
Prints tokens/s over the timed steps, and peak RSS of rank 0."""
import argparse, os, time, resource
import torch, torch.distributed as dist, torch.multiprocessing as mp
from transformers import GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM

def make_model(a):
    if a.family == "llama":
        return LlamaForCausalLM(LlamaConfig(
            num_hidden_layers=a.layers, hidden_size=a.embd, num_attention_heads=a.heads, num_key_value_heads=a.heads // 3,
            intermediate_size=a.embd * 8 // 3, max_position_embeddings=a.block, vocab_size=a.vocab))
    return GPT2LMHeadModel(GPT2Config(
        n_layer=a.layers, n_embd=a.embd, n_head=a.heads, n_positions=a.block, vocab_size=a.vocab,
        resid_pdrop=a.dropout, embd_pdrop=a.dropout, attn_pdrop=a.dropout, tie_word_embeddings=a.tie))

class Stage(torch.nn.Module):
    """A part of GPT-2: embeddings and layers, or layers, norm and head."""
    def __init__(self, model, rank, layers):
        super().__init__()
        body = model.transformer
        self.embed = torch.nn.ModuleList([body.wte, body.wpe]) if rank == 0 else None
        self.layers = body.h[:layers] if rank == 0 else body.h[layers:]
        self.norm, self.head = (body.ln_f, model.lm_head) if rank == 1 else (None, None)

    def forward(self, x):
        if self.embed is not None:
            x = self.embed[0](x) + self.embed[1](torch.arange(x.shape[1]))
        for layer in self.layers:
            out = layer(x)
            x = out[0] if isinstance(out, tuple) else out
        return x if self.head is None else self.head(self.norm(x))

def next_token_loss(logits, labels):
    return torch.nn.functional.cross_entropy(logits[:, :-1].flatten(0, 1).float(), labels[:, 1:].flatten())

def run_pipeline(rank, a):
    from torch.distributed.pipelining import PipelineStage, Schedule1F1B, ScheduleGPipe
    torch.manual_seed(0)
    a.tie = False
    stage = Stage(make_model(a), rank, a.first_layers)
    opt = torch.optim.AdamW(stage.parameters(), lr=1e-4, fused=True)
    kind = ScheduleGPipe if a.mode == "gpipe" else Schedule1F1B
    schedule = kind(PipelineStage(stage, rank, 2, torch.device("cpu")), a.micro_batches, loss_fn=next_token_loss)
    g = torch.Generator().manual_seed(0)
    ts, losses = [], []
    for i in range(a.steps + 2):
        x = torch.randint(0, a.vocab, (a.batch * a.micro_batches, a.block), generator=g)
        dist.barrier()
        t = time.perf_counter()
        with torch.autocast("cpu", torch.bfloat16, enabled=a.bf16):
            schedule.step(x) if rank == 0 else schedule.step(target=x, losses=losses)
        opt.step(); opt.zero_grad(set_to_none=True)
        dist.barrier()
        ts.append(time.perf_counter() - t)
    report(rank, a, ts, a.batch * a.block * a.micro_batches, 0.)

def cut_by_tensor_ranks(model, world):
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import Replicate
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
    columns, rows = ColwiseParallel(), RowwiseParallel()
    plan = {"model.embed_tokens": RowwiseParallel(input_layouts=Replicate()), "lm_head": ColwiseParallel(output_layouts=Replicate())}
    for name in ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "mlp.gate_proj", "mlp.up_proj"):
        plan["model.layers.*." + name] = columns
    for name in ("self_attn.o_proj", "mlp.down_proj"):
        plan["model.layers.*." + name] = rows
    parallelize_module(model, init_device_mesh("cpu", (world,)), plan)

def report(rank, a, ts, tokens, loss):
    ts = sorted(ts[2:])
    med = ts[len(ts)//2]
    peak = torch.tensor([resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6])
    if a.mode != "single": dist.all_reduce(peak, dist.ReduceOp.MAX)
    if rank == 0:
        print(f"{a.mode} world={a.world} threads={a.threads} bf16={a.bf16} step={med*1e3:.0f}ms tok/s={tokens/med:.0f} loss={loss:.3f} rss={peak.item():.2f}GB", flush=True)

def run(rank, a):
    torch.set_num_threads(a.threads)
    if a.mode != "single":
        os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(a.port), GLOO_SOCKET_IFNAME="lo")
        dist.init_process_group("gloo", rank=rank, world_size=a.world)
    if a.mode in ("gpipe", "1f1b"): return run_pipeline(rank, a)
    torch.manual_seed(0)
    model = make_model(a)
    if a.compile: model = torch.compile(model)
    if a.mode == "ddp":
        model = torch.nn.parallel.DistributedDataParallel(model, gradient_as_bucket_view=True)
    if a.mode == "tensor":
        cut_by_tensor_ranks(model, a.world)
    if a.mode == "fsdp2":
        from torch.distributed.fsdp import fully_shard
        from torch.distributed.device_mesh import init_device_mesh
        mesh = init_device_mesh("cpu", (a.world,))
        for b in model.model.layers if a.family == "llama" else model.transformer.h: fully_shard(b, mesh=mesh)
        fully_shard(model, mesh=mesh)
    if a.mode == "zero1":
        from torch.distributed.optim import ZeroRedundancyOptimizer
        model = torch.nn.parallel.DistributedDataParallel(model, gradient_as_bucket_view=True)
        opt = ZeroRedundancyOptimizer(model.parameters(), optimizer_class=torch.optim.AdamW, lr=1e-4)
    else:
        from torch.distributed.tensor import DTensor
        cut = [p for p in model.parameters() if isinstance(p, DTensor)]  # a fused update takes no two kinds
        whole = [p for p in model.parameters() if not isinstance(p, DTensor)]
        opt = torch.optim.AdamW([{"params": p} for p in (cut, whole) if p], lr=1e-4, fused=a.mode!="fsdp2")
    g = torch.Generator().manual_seed(0 if a.mode == "tensor" else rank)
    ts = []
    for i in range(a.steps + 2):
        x = torch.randint(0, a.vocab, (a.batch, a.block), generator=g)
        if a.mode != "single": dist.barrier()
        t = time.perf_counter()
        with torch.autocast("cpu", torch.bfloat16, enabled=a.bf16):
            loss = model(input_ids=x, labels=x).loss
        loss.backward(); opt.step(); opt.zero_grad(set_to_none=True)
        if a.mode != "single": dist.barrier()
        ts.append(time.perf_counter() - t)
    report(rank, a, ts, a.batch * a.block * (1 if a.mode == "tensor" else a.world), loss.item())

if __name__ == "__main__":
    p = argparse.ArgumentParser(); p.add_argument("mode"); p.add_argument("world", type=int)
    for k, v in dict(layers=12, embd=768, heads=12, block=128, batch=4, steps=5, vocab=50257, threads=1, port=29571, first_layers=8, micro_batches=8).items():
        p.add_argument("--" + k, type=int, default=v)
    p.add_argument("--family", default="gpt2"); p.add_argument("--bf16", action="store_true"); p.add_argument("--dropout", type=float, default=0.); p.add_argument("--compile", action="store_true")
    a = p.parse_args()
    a.tie = True
    if a.mode == "single": run(0, a)
    else: mp.spawn(run, (a,), nprocs=a.world)
