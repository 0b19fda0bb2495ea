"""The program that this package brings, and what it needs of torch and pyarrow."""

import ctypes
import functools
import importlib.metadata
import importlib.util
import os
import re
from pathlib import Path

from convoy._built_with import PYARROW, TORCH

FOLDER = Path(__file__).resolve().parent


class InstallationError(RuntimeError):
    """torch, pyarrow or what torch loads is missing, or of another version than convoy was built with."""


def _folder_of(package, wanted):
    """Where `package` lies, without importing it; `wanted` is its release, such as "2.15"."""
    spec = importlib.util.find_spec(package)
    try:
        found = importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        found = None
    if spec is None or not spec.submodule_search_locations or found is None:
        raise InstallationError(
            f"convoy needs {package} {wanted}, and there is none here; try pip install '{package}=={wanted}.*'"
        )
    if found.split("+")[0].split(".")[: len(wanted.split("."))] != wanted.split("."):
        raise InstallationError(
            f"this convoy was built with {package} {wanted} and cannot work with {found}; "
            f"try pip install '{package}=={wanted}.*'"
        )
    return Path(spec.submodule_search_locations[0])


def _check_cuda(site):
    """That torch of the wheels in `site` finds what it loads of CUDA also where there is no GPU; `--no-deps` leaves it out."""
    beside = {name: any(site.glob(f"nvidia/*/lib/lib{name}.so.*")) for name in ("cudart", "cupti")}
    if all(beside.values()):
        return
    asked = (re.match(r"cuda-toolkit(?:\[.*\])?==(\d+)\.(\d+)", line) for line in importlib.metadata.requires("torch") or [])
    for major, minor in (found.groups() for found in asked if found):
        missing = []
        for name, package in ("cudart", "nvidia-cuda-runtime"), ("cupti", "nvidia-cuda-cupti"):
            try:
                beside[name] or ctypes.CDLL(f"lib{name}.so.{major}")
            except OSError:
                missing.append(f"'{package}=={major}.{minor}.*'")
        if missing:
            raise InstallationError(
                f"torch {importlib.metadata.version('torch')} loads libraries of CUDA {major} also where there is no GPU, and some "
                f"are missing here; try pip install --no-deps {' '.join(missing)}"
            )


@functools.lru_cache(maxsize=1)
def environment():
    """What the program's environment has beside this process's: where torch lies, if not beside convoy."""
    torch, pyarrow = _folder_of("torch", TORCH), _folder_of("pyarrow", PYARROW)
    _check_cuda(torch.parent)
    if torch.parent == pyarrow.parent == FOLDER.parent:
        return {}  # the program finds them itself
    nvidia = sorted((torch.parent / "nvidia").glob("*/lib"))
    folders = [*map(str, nvidia), str(torch / "lib"), str(pyarrow)]
    given = os.environ.get("LD_LIBRARY_PATH")
    return {"LD_LIBRARY_PATH": os.pathsep.join(folders + ([given] if given else []))}


def program():
    """The path of the program, once torch and pyarrow are known to fit."""
    environment()
    return FOLDER / "bin" / "convoy"
