"""What the pictures without a sweep give: their files, which docs show."""

from experiments.studies import Contribution
from experiments.studies.exact.write import write_exact

CONTRIBUTION = Contribution(write=write_exact)
