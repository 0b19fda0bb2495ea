#!/usr/bin/env python3
"""Lets the device ignore each place of convoy that orders its work, one after the other, and each fault of its own:
some scenario must see it. Prints each with the scenario that saw it; ends with 1 where nothing saw one that UNSEEN lacks.

ignored_sites.py [PART OF A NAME...]
"""
import hashlib
import os
import sys

from layouts import BY_NAME, CONTEXT, OFFLOAD, RANKS, SEQUENCE, TENSOR, Layout, pipeline
from runs import CONVOY, OWN_MODULE, ROOT, Runs

TEST_GPU = os.environ.get("TEST_GPU", str(ROOT / "build/tests/test_gpu"))
SAVE = ("--save_strategy", "steps", "--save_steps", "2")
OF_A_TEST = "_Test::TestBody"  # a site of a test, not of convoy
LEAST_SITES = 25  # fewer would mean that the device no longer finds them


def training(layout, family="gpt2"):
    return lambda runs, options: runs.train(family, layout.options(family), layout.gpus, options, timeout=60)


def command(args, gpus):
    return lambda runs, options: runs.convoy(args, gpus, options, timeout=60)


def evaluation(family, args):
    def run(runs, options):
        if not (runs.folder / f"{family}_to_evaluate").exists():
            runs.train(family, name=f"{family}_to_evaluate")
        result = runs.convoy(["eval", f"{family}_to_evaluate", *args, "--device", "cuda"], 2, options, timeout=60)
        result.evaluated = result.out
        return result
    return run


def generation(*args):
    def run(runs, options):
        if not (runs.folder / "gpt2_to_go_on").exists():
            runs.train("gpt2", name="gpt2_to_go_on")
        result = runs.convoy(["generate", "gpt2_to_go_on", "--prompt", "w00 w07 w28", "--max-new-tokens", "6", *args,
                              "--device", "cuda"], 2, options, timeout=60)
        result.evaluated = "".join(line for line in result.out.splitlines() if "tokens/s" not in line)
        return result
    return run


def own_module(before=(), after=()):
    return lambda runs, options: runs.program([*before, OWN_MODULE, *after], 2, options, timeout=60)


# Few, and those that see the most first: a hunt is as long as it takes until one sees it.
SCENARIOS = {
    "offload_all": training(Layout("", (*RANKS[2], "--zero", "3", *OFFLOAD, *SAVE), 2)),
    "zero2": training(Layout("", (*RANKS[2], "--zero", "2", *SAVE), 2)),
    "ddp2_shm": training(Layout("", ("--nproc", "2", "--backend", "shm", *SAVE), 2)),
    "pipeline": training(pipeline("", "1f1b", more=SAVE)),
    "zero_bubble": training(pipeline("", "zero_bubble")),
    "v": training(pipeline("", "interleaved", more=("--pipeline_placement", "v")), "llama"),
    "hybrid3": training(BY_NAME["hybrid3"]),
    "pipeline_zero1": training(BY_NAME["pipeline_zero1"]),
    "dp2": training(Layout("", ("--strategy", "dp", *SAVE), 2)),
    "tensor2": training(Layout("", (*RANKS[2], *TENSOR, *SAVE), 2)),
    "tensor2_t5": training(BY_NAME["tensor2"], "t5"),
    "tensor2_eval": evaluation("session", (*RANKS[2], *TENSOR)),
    "tensor2_smooth": training(Layout("", (*RANKS[2], *TENSOR, "--label_smoothing_factor", "0.1"), 2), "session"),
    "tensor2_generate": generation(*RANKS[2], *TENSOR),
    # Two key heads on four ranks: gradients of what two of them hold are summed.
    "tensor4_overlaps": training(Layout("", (*RANKS[4], "--tensor_parallel_size", "4"), 4), "llama"),
    "sequence2": training(Layout("", (*RANKS[2], *SEQUENCE, *SAVE), 2)),
    "context2": training(Layout("", (*RANKS[2], *CONTEXT, *SAVE), 2)),
    "context2_bert": training(BY_NAME["context2"], "bert"),
    "threads": training(BY_NAME["pipeline_threads"]),
    "threads_on_streams": lambda runs, options: runs.program(
        [TEST_GPU, "--gtest_filter=Engines.ThreadsSendEachOther*"], 1, options, timeout=60),
    # What is gathered for a checkpoint is read at once.
    "ddp2_bf16": training(Layout("", (*RANKS[2], "--bf16", *SAVE), 2)),
    # Ranks compare what is offloaded before anything else waits for it.
    "offload_checked": training(Layout("", (*RANKS[2], "--offload_optimizer", "cpu", "--check_replicas_steps", "1"), 2)),
    "offload_disk": training(BY_NAME["offload_disk"]),
    "zero1_accumulate": training(Layout("", (*RANKS[2], "--zero", "1"), 2, 4, 2)),
    "fp16_zero2": training(BY_NAME["fp16_zero2"]),
    "shm_zero3": training(BY_NAME["zero3_shm"]),
    "session": training(BY_NAME["ddp2"], "session"),
    "t5": training(pipeline("", "1f1b"), "t5"),
    # It ends in the middle of copies to the host: no checkpoint waits for them.
    "offload_step": command(("bench", "step", "gpt2.toml", "--device", "cuda", "--steps", "2", "--warmup", "1",
                             "--offload_optimizer", "cpu"), 1),
    "own_module_dp": own_module(after=("--strategy", "dp")),
    "own_module_ddp": own_module(before=(CONVOY, "launch", "-n", "2", "--")),
}
# Faults of the device itself, and the scenario that is to see each.
MUTATIONS = {
    "early_reuse": "zero2", "early_pinned_reuse": "offload_all", "short_download": "offload_all",
    "unordered_peer_copy": "dp2", "event_without_work": "offload_all", "early_synchronize": "ddp2_shm",
    "unordered_nccl": "zero2", "short_upload": "ddp2_shm", "nccl_wait_orders_nothing": "zero2",
    "nccl_forgets_a_rank": "zero2", "same_identity": "zero2",
}
# No scenario sees these, and why.
UNSEEN = {}


class Hunt:
    def __init__(self, scenarios):
        self.runs = Runs()
        self.scenarios = scenarios
        self._normal = {}

    def numbers(self, result, counts):
        """Losses, weights, what checkpoints hold, and how much of the first step ran beside the default streams."""
        files = sorted(result.folder.glob("checkpoint-2/*.safetensors")) if result.folder else []
        lines = [line.split("\t") for line in counts.read_text().splitlines()] if counts.exists() else []
        return {"numbers": (*result.numbers(), [hashlib.md5(file.read_bytes()).hexdigest() for file in files]),
                "overlap": sum(int(beside) for _, step, _, beside, *_ in lines if step == "1")}

    def run(self, name, options):
        counts = self.runs.folder / "counts"
        counts.unlink(missing_ok=True)
        result = self.scenarios[name](self.runs, f"{options},counts={counts}")
        return result, self.numbers(result, counts)

    def sites_file(self, name):
        return self.runs.folder / f"sites_{name}"

    def normal(self, name):
        """What a scenario gives as it is, twice the same."""
        if name not in self._normal:
            result, numbers = self.run(name, f"sites={self.sites_file(name)}")
            if result.code or result.misuses:
                sys.exit(f"{name} fails by itself: {result.misuses or result.out[-2000:]}")
            if (again := self.run(name, "mode=throw")[1]) != numbers:
                sys.exit(f"{name} has other numbers each time: {again} and {numbers}")
            self._normal[name] = numbers
        return self._normal[name]

    def sites(self):
        """Maps each site to the scenarios that come to it."""
        out = {}
        for name in self.scenarios:
            self.normal(name)
            file = self.sites_file(name)
            for site in sorted(set(file.read_text().split("\n")) - {""} if file.exists() else ()):
                if OF_A_TEST in site:
                    continue
                out.setdefault(site, []).append(name)
        return out

    def seen(self, option, scenarios):
        """Which scenario sees it, and how."""
        for name in scenarios:
            expected = self.normal(name)
            result, numbers = self.run(name, option)
            if result.misuses:
                return f"{name}: {result.misuses.splitlines()[0]}"
            if result.code:
                errors = [line for line in result.out.splitlines() if "error" in line or "why" in line]
                return f"{name}: ends with {result.code}: {(errors or [''])[0].strip()}"
            for what, normal in expected.items():
                if numbers[what] != normal:
                    return f"{name}: other {what}" + (f", {numbers[what]} instead of {normal}" if what == "overlap" else "")
        return None


def main():
    hunt = Hunt(SCENARIOS)
    wanted = sys.argv[1:]
    try:
        sites = hunt.sites()
        todo = [(site, f"ignore={site}", where) for site, where in sorted(sites.items())]
        todo += [(name, f"mutate={name}", [where]) for name, where in MUTATIONS.items()]
        seen, wrong = set(), []
        for name, option, where in todo:
            if wanted and not any(one in name for one in wanted):
                continue
            short = name.rsplit("+", 1)[0]
            how = hunt.seen(option, where)
            if how:
                seen.add(short)
            elif short not in UNSEEN:
                wrong.append(f"nothing sees {name}")
            print(f"{name}\n    {how or 'unseen: ' + UNSEEN.get(short, 'NOTHING SEES IT, of ' + ', '.join(where))}", flush=True)
        if not wanted:
            wrong += [f"UNSEEN has {name}, which is no site or is seen" for name in UNSEEN
                      if name in seen or name not in {site.rsplit("+", 1)[0] for site in sites}]
        if len(sites) < LEAST_SITES:
            wrong.append(f"only {len(sites)} sites, of {LEAST_SITES} at least")
        print(f"{len(sites)} sites and {len(MUTATIONS)} faults of the device", *wrong, sep="\n")
        return 1 if wrong else 0
    finally:
        hunt.runs.remove()


if __name__ == "__main__":
    sys.exit(main())
