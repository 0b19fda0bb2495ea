#!/usr/bin/env python3
"""Makes a wheel of a build: the program, its archives, headers and CMake package, and the Python package `convoy`.

    scripts/make_wheel.py BUILD OUTPUT      ./dev wheel calls it with auditwheel and patchelf on the path

The wheel serves every Python from 3.11 on, for nothing in it links libpython. torch and pyarrow stay outside: their wheels are
found beside it. Shared libraries of the system that the program links are taken in by auditwheel.
"""

import base64
import hashlib
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

PLATFORM = "manylinux_2_34_x86_64"
MOST_BYTES = 40_000_000
NEWEST = {"GLIBC": (2, 34), "GLIBCXX": (3, 4, 29), "CXXABI": (1, 3, 13)}
OUTSIDE = ["libtorch*", "libc10*", "libarrow.so.*", "libparquet.so.*", "libcuda*", "libnccl*"]
# Whose copyright files go along: the Debian packages of the libraries that are taken in.
TAKEN_IN = ["libjemalloc2", "libsentencepiece0", "libpcre2-8-0", "libssl3"]
SOURCE = Path(__file__).resolve().parent.parent


def run(*command, **options):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, **options)
    if done.returncode != 0:
        sys.exit(f"{' '.join(str(word) for word in command)} failed:\n{done.stdout}{done.stderr}")
    return done.stdout


def cached(build, name):
    found = re.search(rf"^{name}:[A-Z]+=(.*)$", (build / "CMakeCache.txt").read_text(), re.M)
    return found[1] if found else ""


def release(site, package):
    """The first two or the first of the numbers of a wheel's version: torch 2.15, pyarrow 26."""
    (folder,) = site.glob(f"{package}-*.dist-info")
    numbers = folder.name.removesuffix(".dist-info").split("-")[1].split(".")
    return ".".join(numbers[: 1 if package == "pyarrow" else 2])


def write_built_with(package, site, version):
    """_built_with.py of the Python package: what its program was built with, of the wheels in `site`."""
    (package / "_built_with.py").write_text(
        f'TORCH = "{release(site, "torch")}"\nPYARROW = "{release(site, "pyarrow")}"\nVERSION = "{version}"\n')


def licences():
    """The licence files of a wheel by their names in it: convoy's, and those of the libraries that are taken in."""
    texts = {f"{name}.txt": Path("/usr/share/doc") / name / "copyright" for name in TAKEN_IN}
    return {"LICENSE": SOURCE / "LICENSE"} | {name: text for name, text in texts.items() if text.exists()}


def metadata(version, torch, pyarrow):
    readme = re.sub(r"\]\((?!http)[^)]*\)", "]", (SOURCE / "README.md").read_text()).replace("[**", "**")
    named = "\n".join(f"License-File: {name}" for name in licences())
    return f"""Metadata-Version: 2.4
Name: convoy
Version: {version}
Summary: Trains transformers on one device or many, from C++
License-Expression: Apache-2.0
{named}
Requires-Python: >=3.11
Requires-Dist: torch=={torch}.*
Requires-Dist: pyarrow=={pyarrow}.*
Classifier: Programming Language :: C++
Classifier: Operating System :: POSIX :: Linux
Description-Content-Type: text/markdown

{readme}"""


def write_wheel(stage, dist_info, file):
    """Zips `stage` with a RECORD; times and order are fixed, so the same build gives the same file."""
    lines = []
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:

        def add(name, data, mode):
            entry = zipfile.ZipInfo(name, (2020, 1, 1, 0, 0, 0))
            entry.external_attr = (0o100000 | mode) << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, data)
            digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
            lines.append(f"{name},sha256={digest},{len(data)}\n")

        for path in sorted(stage.rglob("*")):
            if path.is_file():
                add(path.relative_to(stage).as_posix(), path.read_bytes(), 0o755 if path.stat().st_mode & 0o100 else 0o644)
        record = f"{dist_info}/RECORD"
        entry = zipfile.ZipInfo(record, (2020, 1, 1, 0, 0, 0))
        entry.external_attr = 0o100644 << 16
        archive.writestr(entry, "".join(lines) + f"{record},,\n")


def needs(binary):
    """The newest version of each of glibc's and libstdc++'s families of symbols that a file needs."""
    newest = {}
    for family, version in re.findall(r"\((GLIBCXX|GLIBC|CXXABI)_([0-9.]+)\)", run("objdump", "-T", binary)):
        newest[family] = max(newest.get(family, ()), tuple(int(part) for part in version.split(".")))
    return newest


def check(wheel):
    """That the wheel's program runs wherever its name says, and where it looks for libraries."""
    size = wheel.stat().st_size
    if size > MOST_BYTES:
        sys.exit(f"{wheel.name} has {size:,} bytes; expected at most {MOST_BYTES:,}")
    with tempfile.TemporaryDirectory() as folder:
        zipfile.ZipFile(wheel).extractall(folder)
        binaries = [path for path in Path(folder).rglob("*") if path.is_file() and path.open("rb").read(4) == b"\x7fELF"]
        for binary in binaries:
            name = binary.relative_to(folder)
            for family, version in needs(binary).items():
                if version > NEWEST[family]:
                    sys.exit(f"{name} needs {family}_{'.'.join(map(str, version))}; {PLATFORM} has {'.'.join(map(str, NEWEST[family]))}")
            paths = run("patchelf", "--print-rpath", binary).strip()
            for path in filter(None, paths.split(":")):
                if not path.startswith("$ORIGIN"):
                    sys.exit(f"{name} looks for libraries in {path}; expected $ORIGIN/...")
        if not binaries:
            sys.exit(f"{wheel.name} holds no program")
    return size


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    build, output = Path(sys.argv[1]).resolve(), Path(sys.argv[2])
    site = Path(cached(build, "CONVOY_SITE_PACKAGES"))
    torch, pyarrow = release(site, "torch"), release(site, "pyarrow")
    newest_torch = re.search(r"^torch==(\d+\.\d+)", (SOURCE / "requirements.txt").read_text(), re.M)[1]
    version = cached(build, "CMAKE_PROJECT_VERSION")
    if torch != newest_torch:
        version += f"+torch{torch}"
    with tempfile.TemporaryDirectory() as folder:
        stage = Path(folder) / "stage"
        package = stage / "convoy"
        run("cmake", "--install", build, "--prefix", package, "--strip")
        for file in (SOURCE / "python" / "convoy").rglob("*"):
            if file.suffix == ".py" or file.name == "py.typed":
                target = package / file.relative_to(SOURCE / "python" / "convoy")
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(file, target)
        write_built_with(package, site, version)
        config = package / "lib" / "cmake" / "convoy" / "convoy-config.cmake"
        config.write_text(config.read_text().replace(str(site), ""))  # torch lies beside the wheel, or where its user says
        nvidia = [f"nvidia/{path.parent.name}/lib" for path in sorted((site / "nvidia").glob("*/lib"))]
        beside = ":".join(f"$ORIGIN/../../{name}" for name in [*nvidia, "torch/lib", "pyarrow"])
        for binary in [package / "bin" / "convoy", *(package / "lib").glob("*.so")]:
            run("patchelf", "--set-rpath", beside, binary)
        info = f"convoy-{version}.dist-info"
        (stage / info / "licenses").mkdir(parents=True)
        (stage / info / "METADATA").write_text(metadata(version, torch, pyarrow))
        (stage / info / "WHEEL").write_text(
            f"Wheel-Version: 1.0\nGenerator: convoy\nRoot-Is-Purelib: false\nTag: py3-none-linux_x86_64\n")
        (stage / info / "entry_points.txt").write_text("[console_scripts]\nconvoy = convoy.__main__:main\n")
        for name, text in licences().items():
            shutil.copy(text, stage / info / "licenses" / name)
        raw = Path(folder) / f"convoy-{version}-py3-none-linux_x86_64.whl"
        write_wheel(stage, info, raw)
        output.mkdir(parents=True, exist_ok=True)
        repaired = Path(folder) / "repaired"
        exclude = [word for name in OUTSIDE for word in ("--exclude", name)]
        run(sys.executable, "-m", "auditwheel", "repair", "--plat", PLATFORM, "--only-plat", *exclude, "-w", repaired, raw)
        (wheel,) = repaired.glob("*.whl")
        size = check(wheel)
        shutil.move(wheel, output / wheel.name)
    plugin = "with" if (build / "bin" / "libconvoy_nccl.so").exists() else "without"
    print(f"{output / wheel.name}: {size / 1e6:.1f} MB, {plugin} the NCCL plugin, for torch {torch} and pyarrow {pyarrow}")


if __name__ == "__main__":
    main()
