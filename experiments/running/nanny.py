"""The settings of Dask, as JSON, by which a nanny starts each worker with the instructions of the
suite.
"""

import json
import sys

from experiments.measuring.processor import VARIABLES

if __name__ == "__main__":
    json.dump({"distributed": {"nanny": {"pre-spawn-environ": VARIABLES}}}, sys.stdout)
