"""`python -m cemc`."""

import sys

from cemc.cli import main

if __name__ == "__main__":
    sys.exit(main())
