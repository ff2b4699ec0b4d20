"""Install, evaluate, test: what the Makefile calls. Needs a Python and nothing else.

The first lines stay readable for any Python, so that an old one gets a sentence and no traceback.
"""

import importlib
import sys

if sys.version_info < (3, 11):  # noqa: UP036
    found = ".".join(map(str, sys.version_info[:2])) + " at " + sys.executable
    sys.stderr.write(
        "k3-eval: needs Python 3.11 or newer, and this is " + found + ". "
        "Next step: install one (on Debian 12: apt-get install python3.11-venv) and name it, "
        "for example: make eval PYTHON=/usr/bin/python3.11\n"
    )
    sys.exit(5)

if __name__ == "__main__":
    sys.dont_write_bytecode = True
    sys.exit(importlib.import_module("k3house.cli").main(sys.argv[1:]))
