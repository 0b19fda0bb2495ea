#!/usr/bin/env python3
"""Lets the device ignore each place of convoy that orders its work, one after the other, and each fault of its own:
some scenario must see it. Prints each with the scenario that saw it; ends with 1 where nothing saw one that UNSEEN lacks.

ignored_sites.py [PART OF A NAME...]
"""
import hashlib
import sys

from layouts import BY_NAME, OFFLOAD, RANKS, Layout, batches, pipeline
from runs import Runs

SAVE = ("--save_strategy", "steps", "--save_steps", "2")
# Few, and those that see the most first: a hunt is as long as it takes until one sees it.
SCENARIOS = {
    "offload_all": ("gpt2", Layout("", (*RANKS[2], "--zero", "3", *OFFLOAD, *SAVE), 2), 2),
    "zero2": ("gpt2", Layout("", (*RANKS[2], "--zero", "2", *SAVE), 2), 2),
    "ddp2_shm": ("gpt2", Layout("", ("--nproc", "2", "--backend", "shm", *SAVE), 2), 2),
    "pipeline": ("gpt2", pipeline("", "1f1b", more=SAVE), 2),
    "zero_bubble": ("gpt2", pipeline("", "zero_bubble"), 2),
    "v": ("llama", pipeline("", "interleaved", more=("--pipeline_placement", "v")), 2),
    "hybrid3": ("gpt2", BY_NAME["hybrid3"], 4),
    "pipeline_zero1": ("gpt2", BY_NAME["pipeline_zero1"], 4),
    "dp2": ("gpt2", Layout("", ("--strategy", "dp", *SAVE), 2), 2),
    "offload_disk": ("gpt2", BY_NAME["offload_disk"], 1),
    "zero1_accumulate": ("gpt2", Layout("", (*RANKS[2], "--zero", "1"), 2, 4, 2), 2),
    "fp16_zero2": ("gpt2", BY_NAME["fp16_zero2"], 2),
    "shm_zero3": ("gpt2", BY_NAME["zero3_shm"], 2),
    "session": ("session", BY_NAME["ddp2"], 2),
    "t5": ("t5", pipeline("", "1f1b"), 2),
}
# Faults of the device itself, and the scenario that is to see each.
MUTATIONS = {
    "early_reuse": "zero2", "early_pinned_reuse": "offload_all", "short_download": "offload_all",
    "unordered_peer_copy": "dp2", "event_without_work": "offload_all", "early_synchronize": "ddp2_shm",
    "unordered_nccl": "zero2", "short_upload": "ddp2_shm", "nccl_wait_orders_nothing": "zero2",
    "nccl_forgets_a_rank": "zero2", "same_identity": "zero2",
}
# No scenario sees these. Why, as far as it is known: "superfluous" where the code shows that nothing can.
UNSEEN = {
    "set_device convoy::parallel::Workers::loop": "not explained: probably since operations take the device of their tensors",
    "set_device convoy::train::join_job": "not explained: probably since operations take the device of their tensors",
    "set_stream convoy::parallel::HostStore::copy": "without either of its two all runs on one stream, in order: slower; what "
                                                    "view() reads right after a write is not tried",
    "synchronize_stream convoy::parallel::HostStore::~HostStore": "needed by a run that ends in mid-copy, which is not tried",
    "work_wait convoy::comm::make_group": "not explained: probably connect_now(), whose sum nobody reads",
    "work_wait convoy::parallel::FlatBuffers::change": "not explained: the work that it waits for is to be found",
    "work_wait convoy::parallel::Update::clip": "superfluous for order: download() asks right after until all work has ended",
}


class Hunt:
    def __init__(self):
        self.runs = Runs()
        self.normal = {}

    def numbers(self, result):
        """Losses, weights, and what checkpoints hold."""
        saved = [hashlib.md5(file.read_bytes()).hexdigest() for file in sorted(result.folder.glob("checkpoint-2/*.safetensors"))]
        return (*result.numbers(), saved)

    def run(self, name, options, timeout=60):
        family, layout, gpus = SCENARIOS[name]
        result = self.runs.train(family, layout.options(family), gpus, options, timeout=timeout)
        return result, self.numbers(result)

    def sites(self):
        """Maps each site to the scenarios that come to it."""
        out = {}
        for name in SCENARIOS:
            file = self.runs.folder / f"sites_{name}"
            result, self.normal[name] = self.run(name, f"sites={file}")
            if result.code or result.misuses:
                sys.exit(f"{name} fails by itself: {result.misuses or result.out[-2000:]}")
            for site in sorted(set(file.read_text().split("\n")) - {""} if file.exists() else ()):
                out.setdefault(site, []).append(name)
        return out

    def seen(self, option, scenarios):
        """Which scenario sees it, and how."""
        for name in scenarios:
            result, numbers = self.run(name, option)
            if result.misuses:
                return f"{name}: {result.misuses.splitlines()[0]}"
            if result.code:
                errors = [line for line in result.out.splitlines() if "error" in line or "why" in line]
                return f"{name}: ends with {result.code}: {(errors or [''])[0].strip()}"
            if numbers != self.normal[name]:
                return f"{name}: other numbers"
        return None


def main():
    hunt = Hunt()
    wanted = sys.argv[1:]
    try:
        sites = hunt.sites()
        todo = [(site, f"ignore={site}", where) for site, where in sorted(sites.items())]
        todo += [(name, f"mutate={name}", [where]) for name, where in MUTATIONS.items()]
        missed = 0
        for name, option, where in todo:
            if wanted and not any(one in name for one in wanted):
                continue
            seen = hunt.seen(option, where)
            why = UNSEEN.get(name.rsplit("+", 1)[0])
            missed += seen is None and why is None
            print(f"{name}\n    {seen or ('unseen: ' + why if why else 'NOTHING SEES IT, of ' + ', '.join(where))}",
                  flush=True)
        print(f"{len(sites)} sites and {len(MUTATIONS)} faults of the device, {missed} that nothing sees")
        return 1 if missed else 0
    finally:
        hunt.runs.remove()


if __name__ == "__main__":
    sys.exit(main())
