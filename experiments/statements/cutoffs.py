"""All cut-offs chosen by hand, each with its reason.

A word such as "nearly" or "strongly" has no number of its own, so a verdict on it needs a cut-off. Each cut-off here is
a round number, and the same for all statements that use the word. Another choice may change the verdict on a statement
close to it. Bounds that follow from something else, such as a uniform weight of 1/n or the rounding of doubles, are not
choices.
"""

# Numbers.
ABOUT = 0.05  # "about": 5%, a usual rounding in prose; between 0 and 1, of the distance from the nearer end
UNLIKELY = 0.01  # a random draw this improbable does not count as chance: one false alarm in a hundred such statements
CERTAIN = 4.5  # standard errors between a measured and an exact value; by chance once in 150,000
SLIP_UNITS = 3  # of the last digit, and 5%: the limit of a slip; anything further away is another number

# Softmax rows.
ONE_HOT = 0.9  # "nearly one-hot", "close to 1": one weight is nine times the sum of all others
SATURATED = 0.99  # "saturated": the suite's own bound, from its metric `saturated_rows`
RARE = 0.01  # "keeps from", "stays smooth": fewer than one row in a hundred is saturated
DOMINANT = 0.5  # "dominant", "sharp": one weight exceeds the sum of all others; below it a row is "soft"
STRONGLY = 2.0  # "strongly": twice the weight of a key in a uniform row
BROAD = 0.9  # "broadly": nine tenths of the entropy of a uniform row

# Training.
MOST = 0.5  # "training works": the 95% interval of the share of runs that solve lies above one half; "fails": below it

# Sizes.
# "large d_k": eight times 512, the largest in the sources, and equal to the largest measured number of keys. Training
# is measured at 512 only, because a run at 4096 takes several times as long.
LARGE = 4096
TENTH = 0.1  # "vanishing", "small", "modest": a tenth or less; more is "meaningful"
LEVEL = 1.1  # "does not change", "around": the largest value is within 10% of the smallest
TYPICAL = 0.95  # "typically": 19 cases in 20, as with two standard deviations
AMPLIFIED = 2.0  # "much larger": twice as large
