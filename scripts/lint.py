#!/usr/bin/env python3
"""Checks what the compiler does not: arrows between components and folders, a task's words, plain ASCII, lengths.

Prints one line per finding (path:line: text) and ends with 1 when there is an error.
"""
import pathlib
import re
import subprocess
import sys

import knobs
from arrows import Components, targets_of, two_ways

ROOT = pathlib.Path(__file__).resolve().parent.parent
CPP = {".h", ".cpp"}
TEXT = CPP | {".py", ".sh", ".md", ".txt", ".cmake", ".toml", ".json", ".in", ""}
MAX_COLUMNS = 100
MAX_LINES = 400
MACHINE_PATHS = ("/" + "work/", ".." + "/shared")
# What a program of one's own compiles: headers of ours that convoy.h reaches.
PUBLIC_HEADER = "convoy/convoy.h"
MAX_PUBLIC = 27
# The Trainer and the program know tasks only by tasks/task.h.
FREE_OF_TASKS = ("convoy/train/", "convoy/parallel/", "cli/")
TASK_WORD = re.compile(r"sessions?\b|rankings?\b|recommend|top_?ks?\b|\blengths\b|ndcg|popularity|tokeniz|perplexity"
                       r"|classif|sentinel|language.?(model|task)", re.I)
# What blocks cost and which split is fastest is found from a list of blocks, whatever model that is.
FREE_OF_FAMILIES = ("convoy/planner/", "convoy/parallel/")
# Words of our own for what the field has a word: the field's, our own, which other senses it has, and in
# which files alone (all), or in which not ("!"). A match is free where a match of the other senses covers it.
PIPELINE = ("convoy/parallel/pipeline/", "convoy/parallel/recompute/", "convoy/parallel/run_plan/choose", "cli/plan/schedule.cpp", "tests/parallel/pipeline", "docs/pipeline.md")
DATA = ("convoy/data/", "convoy/dataset/", "convoy/train/", "convoy/tasks/", "tests/data/", "docs/data.md", "docs/design.md", "docs/training.md")
SCHEDULE = ("convoy/parallel/", "tests/parallel/", "tests/parallel_torch/")
ACTIONS = (*SCHEDULE, "!convoy/parallel/pipeline/csv", "!tests/parallel/csv")  # cells of a table stay
BENCHMARKS = ("benchmarks/", "convoy/bench/", "cli/bench", "docs/performance.md", "docs/quality.md")
WORDS = [(field, re.compile(own), re.compile(senses) if senses else None, only) for field, own, senses, only in (
    ("virtual stages", r"\b(as_many_|num_)?rows?_?\b|\brounds\b", r"table_?\.row\(|rows (a|per|of a) micro-batch", PIPELINE),
    ("action", r"\b[Tt]asks?_?\b", "", SCHEDULE),
    ("action", r"\b[Cc]ells?_?\b|[a-z]Cells?\b|\bCells?[A-Z]", "", ACTIONS),
    ("shard", r"\b[Ss]lic(e|es|ed|ing)\b|[a-z]Slices?\b|\bslices?_|_slices?\b",
     r"(\.|->)[sS]lice\(|slice\(None\)|slice of a GPU", ()),
    ("state replicas", r"\bcop(y|ies) of (the|a|one|all) (whole )?state\b|\bstate cop(y|ies)\b|\bcheck_copies\b|\bint copy\b|CopiesOfTheState", "", ()),
    ("a rank's micro-batch", r"\b[Cc]ells?_?\b|[a-z]Cells?\b|\bCells?[A-Z]", "", DATA),
    ("collective, communication", r"(?i)\w*exchang\w*|\btalk(s|ed|ing|er)?\b",
     r"std::exchange|compare_exchange_\w+|(\.|->)exchange\(|RENAME_EXCHANGE|exchange two names|cannot exchange|\w*xchange(Device|Stream)\b", ()),
    ("InFlight, complete", r"\bFlight\b|\bflight\b|\bflights_|\bland(s|ed|ing)?\b", r"\bin[ -]flight\b", ()),
    ("baseline", r"\b[Pp]eers?\b", "", BENCHMARKS),
    ("component", r"\brooms\b|\bROOM\b|\b([Aa]|[Tt]his|[Ee]ach|[Ee]very|[Oo]ne|own|other|another) room\b", "", ()),
)]
# Tables of what there is of a kind, by the text before them: names stand nowhere else as a list.
REGISTRIES = {
    "engines": ("convoy/comm/engine_registry.cpp", "std::vector<EngineEntry> all{"),
    "optimizers": ("convoy/optim/optimizer.cpp", "std::vector<OptimizerEntry> all{"),
    "tasks": ("convoy/tasks/task.cpp", "std::vector<TaskKind> all{"),
    "next-item losses": ("convoy/models/session/next_item_losses.cpp", "std::vector<NextItemLoss> all{"),
    "families": ("convoy/models/language_model.cpp", "std::map<std::string, Make> all{"),
    "commands": ("cli/commands.h", "kCommands[] = {"),
}
# Entries that stand each in a source of its own: the folder, and what comes before the name.
ENTRY_FILES = {"schedules": ("convoy/parallel/pipeline", re.compile(r'const ScheduleEntry \w+\{\s*\.name = "(\w+)"')),
               "session bodies": ("convoy/models/session", re.compile(r'\{\.name = "(\w+)",\s*\.maskings'))}
ORDINARY = ("commands", "tasks")  # names that are words of ordinary sentences
OTHER_TABLES = {("convoy/tasks/session/task.cpp", kind) for kind in ("families", "session bodies")}  # what convoy tune tries first
ENTRY = re.compile(r'\{(?:\w+::\w+, )?"(\w+)", ?')
TABLE_END = re.compile(r"(\}\}|\n *\});\n")
# Where tensors may be a GPU's, the host waits in few places: there it first waits for collectives, in bounded time
# (comm/pending.h). What a line must not have, and what stands there instead; a line whose tensors are never a GPU's ends
# with ON_HOST.
HOST_WAITS = [(re.compile(raw), instead) for raw, instead in (
    (r"\.cpu\(\)|\.to\((at|torch)::kCPU\b", "comm::download()"),
    (r"\.item<|\.item\(\)\.to\w*[<(]", "comm::item<>()"),
    (r"(^|[^\w.])host\w*_?\.copy_\((?!.*non_blocking)", "comm::download_into()"),
    (r"\.copy_\(host\w*_?\)", "comm::upload()"),
    (r"\bat::(tensor|arange|full|zeros|ones)\([^;]*\)\.to\((?!at::k)", "comm::upload()"),
    # How many there are, only the host can tell.
    (r"(?<!std::)\b(nonzero|masked_select|argwhere|_?unique(_dim|_consecutive|2)?|repeat_interleave|bincount)\(", "a mask, or comm::download()"),
    (r"\.equal\(|\bat::equal\(|\b(is_nonzero|allclose)\(", "comm::download()"),
)]
ON_DEVICES = tuple(f"convoy/{name}/" for name in (
    "comm", "nn", "masking", "models", "optim", "parallel", "wrappers", "checkpoint", "planner", "job", "dataset", "train",
    "tasks")) + ("plugins/",)
# Those who bring results to the host copy no other way; elsewhere most copies stay on a device.
COPY = re.compile(r"(\.|->)copy_\((?!.*non_blocking)")
TAKE_RESULTS = tuple(f"convoy/{name}/" for name in ("checkpoint", "planner", "train", "tasks"))
ON_HOST = "// on the host"
MAY_WAIT = ("convoy/comm/device.cpp", "convoy/comm/to_host.", "convoy/nn/param.cpp",  # first values, before any collective
            "convoy/planner/devices/these_gpus.cpp")  # measures a GPU before there is a group
THROWS_UNREAD = "fmt::print(stderr"
# Json's own conversions cut fractions off, wrap round and are undefined beyond a type: numbers of requests and of
# other programs' files are read by convoy/base/json_number.h alone.
FOREIGN_NUMBERS = tuple(f"convoy/{name}/" for name in (
    "checkpoint", "data", "formats", "job", "launch", "models", "options", "planner", "prepare", "tasks", "tokenizers", "train")) + ("cli/",)
NUMBER = r"(u?int(\d+_t)?|float|double|size_t|unsigned|long)"
JSON_NUMBER = re.compile(rf"\.get<([^()]*\W)?{NUMBER}\b[^()]*>\(\)|\.get_to\("  # also in lists, pairs and maps
                         r'|\.value\(\s*"\w*",\s*-?[\d.]'
                         rf'|\b{NUMBER} \w+( = |\(|{{)(json|message|row|report|one)\.at\("'
                         r'|^\s*[\w.]+ = (json|message|row|report|one)\.at\("\w+"\);')
NO_WORDS = ("scripts/lint.py", "tests/scripts/lint_test.py")
# A doc block begins with its noun or its verb, not with a pronoun or a clause without one.
DOC_LINE = re.compile(r"\s*///(?!<)\s*(.*)")
MEMBER_DOC = re.compile(r".*///<\s*(.*)")
RIDDLE = re.compile(r"(What|Of|The same|Those|That|So)\b")
MEMBER_RIDDLE = re.compile(r"([Ww]hat|Of|[Tt]he same|[Tt]hose|That|So)\b")
# A test's name begins with its subject, too.
TEST_NAME = re.compile(r"^TEST(?:_[FP])?\(\w+,\s*((?:The|Another|What|Of|Those|That|So)(?=[A-Z])\w*)", re.M)
# Places of the sources in a page.
TYPE = re.compile(r"^(?:struct|class|enum class) (?:alignas\(\w+\) )?(\w+)\b[^;:]*(?::(?!:)[^;]*)?\{", re.M)  # of a namespace
PLACE = re.compile(r"`((?:convoy|cli|tests|scripts|benchmarks|examples|plugins|cmake)/[A-Za-z0-9_./-]+)`")
ANY_NAME = re.compile(r"\b(NAME|KIND)")


def list_files():
    def listed(*more):
        found = subprocess.run(["git", "ls-files", *more], cwd=ROOT, capture_output=True, text=True)
        if found.returncode:
            sys.exit("lint needs a git checkout: " + found.stderr.strip())
        return {pathlib.Path(line) for line in found.stdout.splitlines()}

    tracked = listed()
    folders = {path.parts[0] for path in tracked if len(path.parts) > 1}
    # What somebody trains here lies beside the project's folders.
    new = {path for path in listed("-o", "--exclude-standard") if len(path.parts) > 1 and path.parts[0] in folders}
    paths = sorted(tracked | new)
    return [path for path in paths if path.suffix in TEXT and (ROOT / path).is_file()
            and not path.is_relative_to("tests/fuzz/corpus")]


def own_words(path, line):
    """Yields (our own word, the field's) for words of WORDS that a line of `path` says in our sense."""
    for field, own, senses, only in WORDS:
        if only and not path.startswith(only) or path.startswith(tuple(no[1:] for no in only if no[0] == "!")):
            continue
        free = [match.span() for match in senses.finditer(line)] if senses else []
        for match in own.finditer(line):
            if not any(begin <= match.start() and match.end() <= end for begin, end in free):
                yield match.group(), field


def host_wait(path, line):
    """Returns what a source uses in place of a line that waits for a GPU, or None."""
    if not path.startswith(ON_DEVICES) or path.startswith(MAY_WAIT) or line.endswith(ON_HOST):
        return None
    code = line.split("//")[0]
    if path.startswith(TAKE_RESULTS) and COPY.search(code):
        return "comm::download_into() or comm::upload_into()"
    return next((instead for raw, instead in HOST_WAITS if raw.search(code)), None)


def riddles(lines):
    """Yields (line number, first words) of doc blocks and of members' comments that open without a noun or a verb."""
    before = None
    for number, line in enumerate(lines, 1):
        block = DOC_LINE.match(line)
        member = None if block else MEMBER_DOC.match(line)
        begins = block and before != "block"
        goes_on = member and before == "member" and line.lstrip().startswith("///<")
        if block and begins:
            found = RIDDLE.match(block[1])
        else:
            found = MEMBER_RIDDLE.match(member[1]) if member and not goes_on else None
        if found:
            yield number, found.group()
        before = "block" if block else "member" if member else None


def tests_without_subject(text):
    """Yields (line number, name) of tests whose name opens with an article or a pronoun."""
    for match in TEST_NAME.finditer(text):
        yield text[:match.start()].count("\n") + 1, match[1]


def check_file(path, components):
    """Yields (line number, is error, text)."""
    try:
        lines = (ROOT / path).read_text(encoding="utf-8").split("\n")
    except UnicodeDecodeError:
        yield 1, True, "is not text in ASCII"
        return
    cpp = path.suffix in CPP
    words_count = str(path) not in NO_WORDS and path.suffix != ".json"
    free_of_tasks = cpp and str(path).startswith(FREE_OF_TASKS)
    is_source = cpp and path.parts[0] in ("convoy", "cli")
    component = components.of(path)
    if component and component not in components.all:
        yield 1, True, f"component {component} is not declared in CMakeLists.txt"
        return
    for number, line in enumerate(lines, 1):
        if not line.isascii():
            odd = next(c for c in line if not c.isascii())
            yield number, True, f"has U+{ord(odd):04X}; sources and pages are plain ASCII"
        if any(bad in line for bad in MACHINE_PATHS):
            yield number, True, "names a path of one machine"
        if cpp and len(line) > MAX_COLUMNS:
            yield number, True, f"has {len(line)} columns; at most {MAX_COLUMNS}"
        if words_count:
            for own, field in own_words(str(path), line):
                yield number, True, f"says '{own}', for which the field says: {field}"
        if is_source and THROWS_UNREAD in line:
            yield number, True, "throws where nobody reads standard error; use report::show_progress(text, stderr)"
        if is_source and str(path).startswith(FOREIGN_NUMBERS) and JSON_NUMBER.search(line):
            yield number, True, "reads a number of JSON unchecked; use convoy/base/json_number.h, or convoy/base/json_value.h where exceptions are caught"
        instead = host_wait(str(path), line) if cpp else None
        if instead:
            yield number, True, f"waits for a GPU, perhaps for ever; use {instead}"
        word = TASK_WORD.search(line) if free_of_tasks else None
        if word:
            yield number, True, f"names '{word.group()}', a task's word; tasks say it through tasks/task.h"
        wrong = components.check_line(component, line) if component and cpp else None
        if wrong:
            yield number, True, wrong
    for number, opening in riddles(lines) if is_source else ():
        yield number, True, f"opens a doc block with '{opening}'; begin with the noun or the verb"
    for number, name in tests_without_subject("\n".join(lines)) if cpp and path.parts[0] == "tests" else ():
        yield number, True, f"calls a test {name}; begin with its subject"
    if path.suffix == ".h" and not any(line.strip() == "#pragma once" for line in lines):
        yield 1, True, "lacks #pragma once"
    if cpp and len(lines) > MAX_LINES:
        yield len(lines), False, f"warning: {len(lines)} lines; a file is one idea (about 300 lines)"


def lost_places(text):
    """Places of the sources that a page names and that are not there; NAME and KIND stand for any."""
    for number, line in enumerate(text.split("\n"), 1):
        for place in PLACE.findall(line):
            path = ROOT / place.rstrip("./")
            if not (ANY_NAME.search(place) or path.exists() or any(path.parent.glob(path.name + ".*"))):
                yield number, place


def folders_without_line(page, sources):
    """Yields folders under convoy/ that the map of docs/design.md does not name."""
    found = re.search(r"^## The map\n(.*?)^### ", page, re.S | re.M)[1]
    for folder in sorted({str(pathlib.PurePath(name).parent) for name in sources if name.startswith("convoy/")} - {"convoy"}):
        if not re.search(rf"\b{folder.rsplit('/')[-1]}\b", found):
            yield folder


def read_registries():
    """Maps each kind to (file of its table, first line, last line, names)."""
    out = {}
    for kind, (path, before) in REGISTRIES.items():
        text = (ROOT / path).read_text()
        begin = text.index(before)
        table = text[begin:TABLE_END.search(text, begin).end()]
        first = text[:begin].count("\n") + 1
        names = set(ENTRY.findall(table))
        if len(names) < 2:
            sys.exit(f"lint: {path}: no table of {kind} behind '{before}'")
        out[kind] = (path, first, first + table.count("\n"), names)
    for kind, (folder, entry) in ENTRY_FILES.items():
        names = {name for path in (ROOT / folder).glob("*.cpp") for name in entry.findall(path.read_text())}
        if len(names) < 2:
            sys.exit(f"lint: {folder}: no entries of {kind}")
        out[kind] = (folder, 0, 0, names)
    return out


def listed_names(path, text, registries):
    """Yields (line number, text) where a source lists names of a registry outside its table, or makes an option
    depend on one."""
    for kind, (table, first, last, names) in registries.items():
        name = r"(?<![\w.=-])(?:" + "|".join(sorted(names)) + r")(?![\w.-])"
        if kind in ORDINARY:
            name = f'(?<="){name}(?=")'
        listed = rf'(?P<one>{name})"?\s*(?:"\s*)?(?:,|\bor\b|\band\b)\s*"?\s*"?{name}|\bonly_with\([^()]*"(?P<only>{name})"'
        for match in re.finditer(listed, text):
            number = text[:match.start()].count("\n") + 1
            if (path, kind) not in OTHER_TABLES and not (path == table and first <= number <= last):
                yield number, f"names {kind} ('{match['one'] or match['only']}', ...) that the table in {table} has"


def named_families(path, line, families):
    """Returns the family that a line of a component names which serves every model, or None."""
    if not path.startswith(FREE_OF_FAMILIES):
        return None
    match = re.search(r"(?i)(?<![a-z])(gpt-?\d*|" + "|".join(sorted(families)) + r")(?![a-z0-9])|convoy/models/", line)
    return match.group() if match else None


def types_declared_twice(sources):
    """Yields a sentence for each name that two headers give to types. `sources`: text by name."""
    declared = {}
    for name, text in sources.items():
        for found in TYPE.findall(text) if name.endswith(".h") else ():
            declared.setdefault(found, []).append(name)
    for found, names in sorted(declared.items()):
        if len(names) > 1:
            yield f"{found} is the name of types in {' and '.join(sorted(names))}; a name says one thing"


def reached_from(header):
    """Returns the headers of convoy that `header` includes, and those that they include."""
    found, waiting = set(), [header]
    while waiting:
        targets = set(targets_of((ROOT / waiting.pop()).read_text()))
        waiting += targets - found
        found |= targets
    return found


def main():
    components = Components((ROOT / "CMakeLists.txt").read_text())
    files = list_files()
    errors = 0
    ours = {str(path): (ROOT / path).read_text() for path in files if path.suffix in CPP and path.parts[0] in ("convoy", "cli")}
    for text in (*components.unused(ours), *two_ways(ours), *types_declared_twice(ours)):
        print(text)
        errors += 1
    for folder in folders_without_line((ROOT / "docs/design.md").read_text(), ours):
        print(f"docs/design.md: the map does not say what {folder} holds")
        errors += 1
    for path in files:
        for number, error, text in check_file(path, components):
            print(f"{path}:{number}: {text}")
            errors += error
        is_page = path.suffix == ".md" and path.name != "CHANGELOG.md"  # which names places that were
        for number, place in lost_places((ROOT / path).read_text()) if is_page else ():
            print(f"{path}:{number}: names {place}, which is not there")
            errors += 1
    registries = read_registries()
    for path in files:
        if path.suffix in CPP and path.parts[0] in ("convoy", "cli"):
            source = (ROOT / path).read_text()
            findings = list(listed_names(str(path), source, registries))
            for number, line in enumerate(source.split("\n"), 1):
                family = named_families(str(path), line, registries["families"][3] | registries["session bodies"][3])
                if family:
                    findings.append((number, f"names '{family}'; plans and profiles are of any list of blocks"))
            for number, text in findings:
                print(f"{path}:{number}: {text}")
                errors += 1
    for finding in knobs.findings(ours):
        print(finding)
        errors += 1
    public = reached_from(PUBLIC_HEADER)
    if len(public) > MAX_PUBLIC:
        print(f"{PUBLIC_HEADER}: reaches {len(public)} headers; at most {MAX_PUBLIC}: {' '.join(sorted(public))}")
        errors += 1
    print(f"lint: {len(files)} files, {len(components.all)} components, {errors} errors")
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main())
