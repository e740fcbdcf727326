"""Files of published statements: what they are made from, and where their table is among the results."""

from pathlib import Path

CONFIG = Path(__file__).with_name("config.yaml")  # the measurements that they rest on
CLAIMS = Path(__file__).with_name("claims.csv")
FOLDER = "statements"  # in the repository's results: the tables of CONFIG, and TABLE
TABLE = "statements.csv"
