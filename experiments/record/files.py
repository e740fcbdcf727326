"""Files of the record: what it is made from, and where it is among the results."""

from pathlib import Path

CONFIG = Path(__file__).with_name("config.yaml")  # the measurements that it rests on
CLAIMS = Path(__file__).with_name("claims.csv")
FOLDER = "record"  # in the repository's results: the tables of CONFIG, and TABLE
TABLE = "record.csv"
