"""The command `convoy`: becomes the program. `python -m convoy --cmake-prefix` is for find_package."""

import os
import sys

from convoy import _program


def main():
    try:
        path = _program.program()
    except _program.InstallationError as error:
        sys.exit(str(error))
    if sys.argv[1:] == ["--cmake-prefix"]:
        print(_program.FOLDER)
        return
    os.environ.update(_program.environment())
    os.execv(path, ["convoy", *sys.argv[1:]])


if __name__ == "__main__":
    main()
