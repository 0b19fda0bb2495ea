#!/usr/bin/env python3
"""Puts the Python package together with a build's program, and runs the tests of this folder.

    tests/python/run.py BUILD SITE_PACKAGES [TEST...]
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "scripts"))
from make_wheel import write_built_with  # noqa: E402

build, site = Path(sys.argv[1]).resolve(), Path(sys.argv[2]).resolve()
here = Path(__file__).resolve().parent
stage = build / "python"
shutil.rmtree(stage, ignore_errors=True)
shutil.copytree(here.parent.parent / "python" / "convoy", stage / "convoy", ignore=shutil.ignore_patterns("__pycache__"))
(stage / "convoy" / "bin").mkdir()
(stage / "convoy" / "bin" / "convoy").symlink_to(build / "bin" / "convoy")

write_built_with(stage / "convoy", site, "0")
environment = {**os.environ, "PYTHONPATH": f"{stage}:{site}", "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}
tests = sys.argv[3:] or ["discover", "-s", str(here), "-p", "*_test.py"]
sys.exit(subprocess.call([sys.executable, "-W", "error", "-m", "unittest", *tests], env=environment, cwd=here))
