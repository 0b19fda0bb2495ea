"""Baseline: checkpoints of GPT-2 under FSDP2 with torch.distributed.checkpoint, CPU, two ranks.
usage: dcp_save.py FOLDER [--world 2 --steps 8 --rounds 3]
Prints JSON: bytes, seconds of a synced save, of a cold load, of async_save's call, and of steps with and without one."""
import argparse, json, os, shutil, time
import torch, torch.distributed as dist, torch.multiprocessing as mp
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from transformers import GPT2Config, GPT2LMHeadModel


def median(values):
    return sorted(values)[len(values) // 2]


def forget(folder):
    for name in os.listdir(folder):
        fd = os.open(os.path.join(folder, name), os.O_RDONLY)
        os.fdatasync(fd)
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(fd)


def together(work):
    dist.barrier()
    t = time.perf_counter()
    work()
    dist.barrier()
    return time.perf_counter() - t


def run(rank, a):
    torch.set_num_threads(1)
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(a.port), GLOO_SOCKET_IFNAME="lo")
    dist.init_process_group("gloo", rank=rank, world_size=a.world)
    torch.manual_seed(0)
    model = GPT2LMHeadModel(GPT2Config(n_positions=128, resid_pdrop=0, embd_pdrop=0, attn_pdrop=0))
    mesh = init_device_mesh("cpu", (a.world,))
    for block in model.transformer.h:
        fully_shard(block, mesh=mesh)
    fully_shard(model, mesh=mesh)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    generator = torch.Generator().manual_seed(rank)

    def step():
        dist.barrier()
        t = time.perf_counter()
        x = torch.randint(0, 50257, (4, 128), generator=generator)
        model(input_ids=x, labels=x).loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        dist.barrier()
        return time.perf_counter() - t

    def state():
        weights, moments = get_state_dict(model, optimizer)
        return {"model": weights, "optimizer": moments}

    for _ in range(2):
        step()
    place = lambda name: os.path.join(a.folder, f"dcp-{name}")
    times = {"save": [], "load": []}
    for i in range(a.rounds):
        if rank == 0:
            shutil.rmtree(place("sync"), ignore_errors=True)
        times["save"].append(together(lambda: dcp.save(state(), checkpoint_id=place("sync"))))
        if rank == 0:
            forget(place("sync"))

        def load():
            loaded = state()
            dcp.load(loaded, checkpoint_id=place("sync"))
            set_state_dict(model, optimizer, model_state_dict=loaded["model"], optim_state_dict=loaded["optimizer"])

        times["load"].append(together(load))
    without, during, calls = [step() for _ in range(a.steps)], [], []
    group = dist.new_group(backend="gloo")  # async_save communicates in a thread of its own
    for i in range(2):
        dist.barrier()
        t = time.perf_counter()
        future = dcp.async_save(state(), checkpoint_id=place(f"async{i}"), process_group=group)
        calls.append(time.perf_counter() - t)
        # All ranks make as many steps: until each has written its part.
        while True:
            during.append(step())
            done = torch.tensor([int(future.done())])
            dist.all_reduce(done, dist.ReduceOp.MIN)
            if done.item():
                break
        future.result()
        without += [step() for _ in range(2)]
    size = sum(os.path.getsize(os.path.join(place("sync"), name)) for name in os.listdir(place("sync")))
    dist.barrier()
    if rank == 0:
        for name in ("sync", "async0", "async1"):
            shutil.rmtree(place(name), ignore_errors=True)
        print(json.dumps({"bytes": size, "save_seconds": median(times["save"]), "load_seconds": median(times["load"]),
                          "held_up_seconds": median(calls), "step_seconds_during": sum(during) / len(during),
                          "step_seconds_without": median(without), "during_ratio": sum(during) / len(during) / median(without)}), flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    p = argparse.ArgumentParser()
    p.add_argument("folder")
    for key, value in dict(world=2, steps=6, rounds=3, port=29577).items():
        p.add_argument("--" + key, type=int, default=value)
    a = p.parse_args()
    mp.spawn(run, (a,), nprocs=a.world)
