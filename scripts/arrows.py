"""Arrows between the components of convoy, and between the folders of one component: which file may include which.

The allowed arrows are read from the convoy_component(...) and convoy_torch_part(...) lines of CMakeLists.txt, so they
are written down once.
"""
import pathlib
import re
import sys

INCLUDE = re.compile(r'\s*#\s*include\s+([<"])([^>"]+)[>"]')
LINE = re.compile(r"(convoy_component|convoy_torch_part)\(([^)]*)\)")
SECTIONS = ("TORCH", "WITH_TORCH", "LINK", "COMPONENTS")


class Components:
    """The components of CMakeLists.txt. `all`: name to (components it may include, whether it may use torch, those that its line names)."""

    def __init__(self, text):
        self.all, self._with_torch = {}, {}
        for kind, body in LINE.findall(re.sub(r"#.*", "", text)):
            words = body.split()
            parts, section = {name: [] for name in SECTIONS}, None
            for word in words[1:]:
                if word in SECTIONS:
                    section = word
                else:
                    parts[section].append(word)
            name, direct = words[0], parts["COMPONENTS"]
            if kind == "convoy_torch_part":
                name, direct = f"{words[0]}_torch", [words[0], *direct]
            elif parts["WITH_TORCH"]:
                self._with_torch[name] = set(parts["WITH_TORCH"])
            self._add(name, direct, kind == "convoy_torch_part" or "TORCH" in words)

    def _add(self, name, direct, torch):
        allowed = {name}
        for below in direct:
            if below not in self.all:
                sys.exit(f"CMakeLists.txt: component {name} names {below}, which is not above it")
            allowed |= self.all[below][0]
        self.all[name] = (allowed, torch, direct)

    def of(self, path):
        """Component of convoy/<folder>/..., as a path or as an include says it; None for other files."""
        parts = pathlib.PurePath(path).parts
        if len(parts) < 3 or parts[0] != "convoy":
            return None
        with_torch = self._with_torch.get(parts[1], set()) & set(parts[2:-1])
        return f"{parts[1]}_torch" if with_torch else parts[1]

    def check_line(self, component, line):
        """Returns what is wrong with a line of a file of `component` where it is an include, or None."""
        include = INCLUDE.match(line)
        if include is None:
            return None
        quote, target = include.groups()
        allowed, torch, _ = self.all[component]
        parts = target.split("/")
        if parts[0] in ("torch", "ATen", "c10", "caffe2") and not torch:
            return f"component {component} is free of torch, but includes {target}"
        if parts[0] == "convoy":
            if len(parts) < 3:
                return f"a component includes single headers, not {target}"
            if self.of(target) not in allowed:
                return f"component {component} may not know component {self.of(target)}; CMakeLists.txt has the arrows"
        elif quote == '"':
            return f'write the include as "convoy/<component>/..." or <...>, not "{target}"'
        return None

    def unused(self, sources):
        """Yields what is wrong with arrows that no include uses. `sources`: text by path."""
        used = {(self.of(path), self.of(target)) for path, text in sources.items() for target in targets_of(text)}
        for component, (_, _, direct) in self.all.items():
            for below in direct:
                if (component, below) not in used:
                    yield f"CMakeLists.txt: component {component} names {below}, of which it includes nothing"


def targets_of(text):
    """Returns the headers of convoy that a source includes."""
    return [match[2] for match in map(INCLUDE.match, text.split("\n")) if match and match[2].startswith("convoy/")]


def two_ways(sources):
    """Yields folders of one component, or of cli, that include each other. A folder's .cpp may use what lies in folders
    inside it, whose headers use the folder's own: a registry does. `sources`: text by path."""
    arrows = {}
    for path, text in sources.items():
        folder = folder_of(path)
        for target in (match[2] for match in map(INCLUDE.match, text.split("\n")) if match and match[1] == '"'):
            other = folder_of(target)
            inside = other.startswith(folder + "/") and path.endswith(".cpp")
            if other != folder and house_of(other) == house_of(folder) and not inside:
                arrows.setdefault((folder, other), []).append(f"{path} includes {target}")
    for (folder, other), includes in sorted(arrows.items()):
        if folder < other and (other, folder) in arrows:
            fewer = min(includes, arrows[other, folder], key=len)
            yield f"{folder} and {other} include each other: {'; '.join(fewer[:3])}"


def folder_of(path):
    return str(pathlib.PurePath(path).parent)


def house_of(folder):
    """The component that a folder is in; "cli" is one."""
    parts = folder.split("/")
    return parts[:2] if parts[0] == "convoy" else parts[:1]
