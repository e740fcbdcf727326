"""The command `sdpa` as `python -m sdpa`."""

import sys

from sdpa.tools.command.main import main

sys.exit(main())
