"""`python -m k3image`."""

import sys

from k3image.cli import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
