"""Where the knobs of a step are named: members of parallel::Parallelism, and types beside it that hold several of them."""
import re

# A member of the one value that says how a step is spread is named by its declaration and so many other sources at most:
# its knob (parallel/knobs.cpp), and the technique that reads it. Older ones are in more, but never in more again.
PARALLELISM = "convoy/parallel/parallelism.h"
MAX_MEMBER_SOURCES = 2
MEMBER_SOURCES = {
    "ranks.pipeline": 24, "ranks.replicate": 3, "ranks.shard": 5, "ranks.expert": 7, "ranks.context": 11, "ranks.tensor": 12, "zero": 20,
    "recompute": 17, "recomputed.of_stage": 4, "recomputed.to_fit": 3, "sequence_parallel": 15, "expert_joined": 7, "row_tables": 3, "reduce_each": 4, "bucket_bytes": 3, "keep_bytes": 6,
    "offload.optimizer": 7, "offload.gradients": 7, "offload.parameters": 6, "offload.folder": 6,
    "pipeline.schedule": 15, "pipeline.virtual_stages": 8, "pipeline.splits": 5, "pipeline.placement": 4, "pipeline.memory": 3,
    "pipeline.file": 4, "pipeline.csv": 4, "pipeline.costs": 4,
}
NOT_ONLY_MEMBERS = {"rows", "micro_batches"}  # also names of other things
# A type that has numbers of two of these knobs itself says how a step is spread: docs/design.md says why there are others
# than Parallelism (with the Degrees in it).
SPREADS = {"Parallelism", "Degrees", "TrainingArguments", "BatchLayout", "BlockShare"}
KNOB_NAMES = {
    "ZeRO": "zero", "micro-batches": r"(num_)?micro_batches|(gradient_)?accumulation(_steps)?|chunks", "stages": "(num_)?stages|pipeline",
    "tensor ranks": "tensor|num_tensor(_ranks)?", "rows": "rows|batch_rows|per_device(_train)?_batch(_size)?",
    "recomputation": "recompute|gradient_checkpointing"}
TYPE_BODY = re.compile(r"^( *)(?:struct|class) (\w+)[^;{}()]*\{\n(.*?)^\1\};", re.M | re.S)
NUMBERS = re.compile(r"^\s*(?:int|int64_t|size_t|bool) (\w+(?: = [^;(,]*)?(?:, \w+(?: = [^;(,]*)?)*);", re.M)


def without_texts(source):
    """C++ without its comments and what stands between quotes."""
    return re.sub(r'//[^\n]*|"(?:\\.|[^"\\\n])*"', "", source)


def members_of(header):
    """Maps each member of Parallelism, and of the structs of options in it ("gathers.prefetch"), to a pattern of its uses."""
    def members(struct):
        body = re.search(rf"struct {struct} {{(.*?)\n}};", header, re.S)
        body = re.sub(r"^(  [\w:]+ )(\w+) = [^,;]*, (?=\w+ = [^;()]*;)", r"\1\2;\n\1", body[1], flags=re.M) if body else ""
        return re.findall(r"^  ([\w:]+(?:<[\w:]+>)?) (\w+)(?: = [^;]*)?;", body, re.M)
    out = {}
    for kind, name in members("Parallelism"):
        inner = members(kind)
        for _, leaf in inner:
            out[f"{name}.{leaf}"] = re.compile(rf"\b{name}\.{leaf}\b|\b{kind}::{leaf}\b")
        if not inner and name not in NOT_ONLY_MEMBERS:
            out[name] = re.compile(rf"(?:\.|->|\bParallelism::){name}\b(?!\()")
    return out


def sources_of_members(header, sources):
    """Maps each member of Parallelism to the names of sources whose code names it, its declaration aside."""
    code = {name: without_texts(text) for name, text in sources.items() if name != PARALLELISM}
    return {member: sorted(name for name, text in code.items() if pattern.search(text))
            for member, pattern in members_of(header).items()}


def spreads_of(sources):
    """Yields file, type and knobs of each type that holds numbers of two knobs of a step or more. `sources`: text by name."""
    for name, text in sorted(sources.items()):
        for _, kind, body in TYPE_BODY.findall(without_texts(text)):
            members = [each.split()[0].rstrip("_") for found in NUMBERS.findall(body) for each in found.split(",")]
            held = [knob for knob, names in KNOB_NAMES.items() if any(re.fullmatch(names, member) for member in members)]
            if len(held) > 1:
                yield name, kind, held


def findings(sources):
    """Yields a sentence for each knob that too many sources name, and for each type that has several. `sources`: text by name."""
    for member, named in sources_of_members(sources[PARALLELISM], sources).items():
        most = MEMBER_SOURCES.get(member, MAX_MEMBER_SOURCES)
        if len(named) > most:
            yield f"{PARALLELISM}: {member} is named in {len(named)} other sources; at most {most}: {' '.join(named)}"
    for name, kind, held in spreads_of(sources):
        if kind not in SPREADS:
            yield f"{name}: {kind} has {' and '.join(held)} of its own; hold a parallel::Parallelism"
