"""What scripts/make_wheel.py puts into a wheel."""

import platform
import shutil
import sys
import unittest
from pathlib import Path

from convoy import _program

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "scripts"))
import make_wheel  # noqa: E402


def numbers(text):
    return tuple(int(part) for part in text.split("."))


class Wheel(unittest.TestCase):
    @unittest.skipIf(numbers(platform.libc_ver()[1]) > (2, 36), "built on a newer system than wheels are")
    @unittest.skipUnless(shutil.which("objdump"), "there is no objdump")
    def test_the_program_runs_where_the_wheel_says(self):
        program = _program.program().resolve()
        needed = make_wheel.needs(program)
        self.assertIn("GLIBC", needed)
        for binary in program, program.parent / "libconvoy_nccl.so":
            for family, version in (make_wheel.needs(binary) if binary.exists() else {}).items():
                self.assertLessEqual(version, make_wheel.NEWEST[family], (binary.name, family))

    def test_asks_for_the_releases_that_it_was_built_with_and_names_its_licences(self):
        text = make_wheel.metadata("1.2.3+torch2.11", "2.11", "26")
        lines = text[: text.index("\n\n")].splitlines()
        for line in "Version: 1.2.3+torch2.11", "Requires-Dist: torch==2.11.*", "Requires-Dist: pyarrow==26.*":
            self.assertIn(line, lines)
        for name, file in make_wheel.licences().items():
            self.assertIn(f"License-File: {name}", lines)
            self.assertTrue(file.is_file())
        self.assertNotIn("](docs/", text)


if __name__ == "__main__":
    unittest.main()
