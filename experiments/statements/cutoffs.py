"""The cut-offs that are chosen by hand, all of them, each with its reason.

A word such as "nearly" or "strongly" has no number of its own, so that a verdict on it needs one. Each number here is
round, and the same for all statements that use the word. Another choice may turn a verdict on a statement close to it.
Bounds that follow from something else, such as a uniform weight of 1/n or the rounding of doubles, are no choice.
"""

# Numbers.
ABOUT = 0.05  # "about": 5%, as one rounds in a sentence; between 0 and 1, of the distance from the nearer end
UNLIKELY = (
    0.01  # a random draw that is so improbable does not count as chance: one false alarm in a hundred such statements
)
CERTAIN = 4.5  # standard errors between a measured and an exact value; by chance once in 150,000
SLIP_UNITS = 3  # of the last digit, and 5%: as far as a slip goes; what is further away is another number

# Softmax rows.
ONE_HOT = 0.9  # "nearly one-hot", "close to 1": one weight has nine times what all others have together
SATURATED = 0.99  # "saturated": the suite's own bound, that of its metric `saturated_rows`
RARE = 0.01  # "keeps from", "stays smooth": fewer than one row in a hundred is saturated
DOMINANT = 0.5  # "dominant", "sharp": one weight has more than all others together; below it a row is "soft"
STRONGLY = 2.0  # "strongly": twice the weight that each key has in a uniform row
NEARLY_EQUAL = 0.5  # "nearly equal": no weight is further from the uniform one than half of it
BROAD = 0.9  # "broadly": nine tenths of the entropy of a uniform row

# Sizes.
LARGE = 4096  # "large d_k": eight times 512, the largest that the sources show, and as many as the most keys measured
TENTH = 0.1  # "vanishing", "small", "modest": a tenth or less; what is more is "meaningful"
LEVEL = 1.1  # "does not change", "around": the largest value is within 10% of the smallest
TYPICAL = 0.95  # "typically": 19 cases in 20, as with two standard deviations
AMPLIFIED = 2.0  # "much larger": twice as large
