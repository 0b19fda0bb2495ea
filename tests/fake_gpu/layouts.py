"""The layouts that are tried on simulated GPUs: by name, options, GPUs, what they must equal."""
import dataclasses

from runs import DOCUMENTS, SESSIONS

RANKS = {n: ("--nproc", str(n), "--backend", "nccl") for n in (2, 3, 4, 6)}
OFFLOAD = ("--offload_optimizer", "cpu", "--offload_parameters", "cpu", "--offload_gradients", "cpu")
TENSOR = ("--tensor_parallel_size", "2")
SEQUENCE = (*TENSOR, "--sequence_parallel")
CONTEXT = ("--context_parallel_size", "2")


@dataclasses.dataclass
class Layout:
    name: str
    args: tuple
    gpus: int = 1
    batch: int = 8        # of all GPUs together, in a micro-batch
    micro_batches: int = 1
    off: float = 1e-5     # from the CPU on one device
    same: str = ""        # another layout whose bits it has on the CPU, so that it has them here
    untied: str = ""      # the same of models without a table that two stages have
    fast: bool = True     # in ./dev test

    def options(self, family):
        stages = self._number("--pipeline_parallel_size")
        ranks = self.gpus if "dp" in self.args else max(self.gpus, self._number("--nproc"), stages)
        shares = ranks // stages // self._number("--tensor_parallel_size") // self._number("--context_parallel_size")
        return (*self.args, *batches(self._of(family) // shares, self.micro_batches))

    def takes(self, family):
        """Whether the family has such ranks (docs/tensor.md, docs/context.md)."""
        if "--tensor_parallel_size" in self.args and family == "xlnet":
            return False
        return "--context_parallel_size" not in self.args or family not in ("t5", "classify", *SESSIONS, *DOCUMENTS)

    def on_one(self, family):
        """The options of one device with the same batches."""
        return batches(self._of(family), self.micro_batches)

    def _of(self, family):
        return self.batch * (2 if family in SESSIONS else 1)

    def _number(self, option):
        return int(self.args[self.args.index(option) + 1]) if option in self.args else 1


def batches(size, micro_batches):
    return ("--per_device_train_batch_size", str(size), "--gradient_accumulation_steps", str(micro_batches))


def threads(name, schedule, gpus=2, more=(), **others):
    """Two stages as threads of one process."""
    return Layout(name, ("--pipeline_parallel_size", "2", "--pipeline_schedule", schedule, *more), gpus, 2, 4, **others)


def pipeline(name, schedule, ranks=2, stages=2, micro_batches=4, more=(), **others):
    return Layout(name, (*RANKS[ranks], "--pipeline_parallel_size", str(stages), "--pipeline_schedule", schedule, *more),
                  ranks, 2, micro_batches, **others)


LAYOUTS = [
    Layout("single", ()),
    Layout("accumulate", (), 1, 2, 4),
    Layout("accumulate2", (), 1, 4, 2, fast=False),
    Layout("accumulate3", (), 1, 4, 3, fast=False),
    Layout("checkpointing", ("--gradient_checkpointing",), same="single"),
    Layout("deterministic", ("--deterministic",)),
    Layout("offload_optimizer", ("--offload_optimizer", "cpu"), same="single"),
    Layout("offload_disk", ("--offload_optimizer", "disk", "--offload_dir", "."), same="single", fast=False),
    Layout("dp2", ("--strategy", "dp"), 2, same="ddp2"),
    Layout("dp4", ("--strategy", "dp"), 4, same="accumulate"),
    Layout("ddp2", RANKS[2], 2, same="accumulate2"),
    Layout("ddp2_accumulate", RANKS[2], 2, 2, 4, fast=False),
    Layout("ddp3", RANKS[3], 3, 12, same="accumulate3"),
    Layout("ddp4", RANKS[4], 4, same="accumulate"),
    Layout("ddp2_shm", ("--nproc", "2", "--backend", "shm"), 2, same="ddp2"),
    Layout("ddp2_gloo", ("--nproc", "2", "--backend", "gloo"), 2, same="ddp2", fast=False),
    Layout("shared_gpu", ("--nproc", "2", "--backend", "auto"), 1, same="ddp2"),
    Layout("zero1", (*RANKS[2], "--zero", "1"), 2, same="ddp2"),
    Layout("zero2", (*RANKS[2], "--zero", "2"), 2, same="ddp2"),
    # Ranks first, then micro-batches or state replicas: not the order of one device.
    Layout("zero2_accumulate", (*RANKS[2], "--zero", "2"), 2, 4, 2, same="hybrid2"),
    Layout("zero3_prefetch0", (*RANKS[2], "--zero", "3", "--prefetch", "0"), 2, same="ddp2"),
    Layout("zero3_prefetch1", (*RANKS[2], "--zero", "3", "--prefetch", "1"), 2, same="ddp2"),
    Layout("zero3_prefetch3", (*RANKS[2], "--zero", "3", "--prefetch", "3"), 2, same="ddp2"),
    Layout("zero3_checkpointing", (*RANKS[2], "--zero", "3", "--gradient_checkpointing"), 2, same="ddp2"),
    Layout("zero3_shm", ("--nproc", "2", "--backend", "shm", "--zero", "3"), 2, same="ddp2", fast=False),
    Layout("zero3_three_ranks", (*RANKS[3], "--zero", "3"), 3, 12, same="ddp3", fast=False),
    Layout("hybrid2", (*RANKS[4], "--zero", "2", "--shard_ranks", "2"), 4, fast=False),
    Layout("hybrid3", (*RANKS[4], "--zero", "3", "--shard_ranks", "2"), 4, same="hybrid2"),
    Layout("offload_all", (*RANKS[2], "--zero", "3", *OFFLOAD), 2, same="ddp2"),
    Layout("offload_all_prefetch3", (*RANKS[2], "--zero", "3", "--prefetch", "3", *OFFLOAD), 2, same="ddp2", fast=False),
    pipeline("naive", "naive", untied="accumulate"),
    pipeline("gpipe", "gpipe", same="naive"),
    pipeline("1f1b", "1f1b", same="naive"),
    pipeline("interleaved", "interleaved", same="naive"),
    pipeline("zero_bubble", "zero_bubble", untied="accumulate"),
    pipeline("auto", "auto", untied="accumulate"),
    # The first rank has the first blocks and the last, so the tied table is its own alone.
    pipeline("v", "interleaved", more=("--pipeline_placement", "v"), same="accumulate"),
    pipeline("zero_bubble_v", "zero_bubble", more=("--pipeline_placement", "v"), same="v"),
    pipeline("four_stages", "1f1b", ranks=4, stages=4, untied="accumulate", fast=False),
    pipeline("zero_bubble_four_stages", "zero_bubble", ranks=4, stages=4, more=("--pipeline_virtual_stages", "1"), untied="accumulate",
             fast=False),
    pipeline("pipeline_shm", "1f1b", more=("--backend", "shm"), same="naive", fast=False),
    pipeline("pipeline_zero1", "1f1b", ranks=4, micro_batches=4, more=("--zero", "1"), untied="ddp2_accumulate", fast=False),
    pipeline("pipeline_ddp", "interleaved", ranks=4, same="pipeline_zero1", fast=False),
    # Of six ranks four share the tied table, two of each of two stages that are no neighbours.
    pipeline("three_stages_ddp", "1f1b", ranks=6, stages=3, untied="ddp2_accumulate"),
    Layout("tensor2", (*RANKS[2], *TENSOR), 2),
    Layout("tensor2_accumulate", (*RANKS[2], *TENSOR), 2, 4, 2, fast=False),
    Layout("tensor2_zero1", (*RANKS[4], *TENSOR, "--zero", "1"), 4, same="tensor2_accumulate"),
    Layout("tensor2_accumulate4", (*RANKS[2], *TENSOR), 2, 2, 4, fast=False),
    pipeline("tensor2_pipeline", "1f1b", ranks=4, more=TENSOR, untied="tensor2_accumulate4"),
    Layout("sequence2", (*RANKS[2], *SEQUENCE), 2),
    Layout("sequence2_zero1", (*RANKS[4], *SEQUENCE, "--zero", "1"), 4, fast=False),
    pipeline("sequence2_pipeline", "zero_bubble", ranks=4, more=SEQUENCE, fast=False),
    Layout("context2", (*RANKS[2], *CONTEXT), 2),
    Layout("context3", (*RANKS[3], "--context_parallel_size", "3", "--zero", "2"), 3, fast=False),
    Layout("context2_checkpointing", (*RANKS[2], *CONTEXT, "--gradient_checkpointing"), 2, same="context2", fast=False),
    Layout("context2_sequence2", (*RANKS[4], *CONTEXT, *SEQUENCE), 4, fast=False),
    pipeline("context2_pipeline", "1f1b", ranks=4, more=CONTEXT, fast=False),
    threads("pipeline_threads", "1f1b", same="naive"),
    threads("pipeline_threads_shared_gpu", "interleaved", gpus=1, same="naive"),
    threads("pipeline_threads_two_replicas", "1f1b", gpus=4, same="pipeline_zero1", fast=False),
    Layout("bf16", ("--bf16",), off=5e-2),
    Layout("bf16_accumulate", ("--bf16",), 1, 2, 4, off=5e-2, fast=False),
    Layout("bf16_ddp2", (*RANKS[2], "--bf16"), 2, off=5e-2, fast=False),
    Layout("bf16_zero3", (*RANKS[2], "--zero", "3", "--bf16"), 2, off=5e-2, same="bf16_ddp2"),
    pipeline("bf16_pipeline", "1f1b", more=("--bf16",), off=5e-2, untied="bf16_accumulate"),
    pipeline("bf16_zero_bubble", "zero_bubble", more=("--bf16",), off=5e-2, untied="bf16_accumulate", fast=False),
    Layout("fp16", ("--fp16",), off=5e-2),
    Layout("fp16_zero2", (*RANKS[2], "--zero", "2", "--fp16"), 2, off=5e-2),
]
BY_NAME = {layout.name: layout for layout in LAYOUTS}
