"""Starting the program so that it does not outlive this process."""

import ctypes
import os
import signal
import subprocess
from collections.abc import Mapping

from convoy import _errors, _program

_PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None, use_errno=True)


def _value(value):
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (list, tuple)):
        return ",".join(map(_value, value))
    return os.fspath(value) if isinstance(value, os.PathLike) else str(value)


def flags(options):
    """Options as the command line has them: {"learning_rate": 1e-3, "data": {"path": "x"}}; None leaves one out."""
    out = []
    for name, value in options.items():
        if isinstance(value, Mapping):
            out += flags({f"{name}.{inner}": word for inner, word in value.items()})
        elif value is not None:
            out += [f"--{name}", _value(value)]
    return out


def start(arguments, **streams):
    """Starts the program with these arguments. When this process dies, it gets SIGTERM. A Ctrl-C here is not one there."""
    parent = os.getpid()

    def until_the_parent_dies():
        _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
        if os.getppid() != parent:
            os._exit(1)

    return subprocess.Popen(
        [_program.program(), *arguments],
        env={**os.environ, **_program.environment()},
        start_new_session=True,
        preexec_fn=until_the_parent_dies,
        **streams,
    )


def run(*arguments):
    """What a command prints. Raises what it fails with."""
    process = start(arguments, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        out, error = process.communicate()
    except BaseException:
        process.terminate()
        process.wait()
        raise
    if process.returncode != 0:
        raise _errors.from_text(error, process.returncode)
    return out
