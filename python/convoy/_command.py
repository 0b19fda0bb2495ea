"""Starting the program so that it does not outlive this process."""

import ctypes
import os
import signal
import subprocess
import tempfile
from collections.abc import Mapping

from convoy import _errors, _program

_PR_SET_PDEATHSIG = 1
ERROR_FILE = "TORCHELASTIC_ERROR_FILE"  # where the program leaves why it failed, as under torchrun
_libc = ctypes.CDLL(None, use_errno=True)


def _value(value):
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (list, tuple)):
        return ",".join(map(_value, value))
    return os.fsdecode(value) if isinstance(value, (bytes, os.PathLike)) else str(value)


def flags(options):
    """Options as the command line has them: {"learning_rate": 1e-3, "data": {"path": "x"}}; None leaves one out."""
    out = []
    for name, value in options.items():
        if isinstance(value, Mapping):
            out += flags({f"{name}.{inner}": word for inner, word in value.items()})
        elif value is not None:
            out.append(f"--{name}={_value(value)}")  # a value may begin with a dash
    return out


def place(path):
    """A file or folder as an argument that cannot be taken for an option."""
    text = os.fsdecode(path)
    return os.path.join(".", text) if text.startswith("-") else text


def start(arguments, *, tied=True, environment=None, **streams):
    """Starts the program with these arguments. A Ctrl-C here is not one there.

    tied: when the thread that starts it ends, and so when this process dies, the program gets SIGTERM.
    """
    parent = os.getpid()

    def until_the_parent_dies():
        _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
        if os.getppid() != parent:
            os._exit(1)

    return subprocess.Popen(
        [_program.program(), *arguments],
        env={**os.environ, **_program.environment(), **(environment or {})},
        start_new_session=True,
        preexec_fn=until_the_parent_dies if tied else None,
        **streams,
    )


def run(*arguments):
    """What a command prints. Raises what it fails with."""
    with tempfile.TemporaryDirectory(prefix="convoy-") as folder:
        reason = os.path.join(folder, "error.json")
        process = start(
            arguments,
            environment={ERROR_FILE: reason},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            encoding="utf-8",
            errors="replace",
        )
        try:
            out, error = process.communicate()
        except BaseException:
            process.terminate()
            process.wait()
            raise
        if process.returncode != 0:
            raise _errors.from_end(reason, error, process.returncode)
    return out
