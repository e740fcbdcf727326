"""Statements about training, which the suite does not do."""

from experiments.statements.declare import open_statement

open_statement("article-54b", says="With scaling a model learns sharp and soft attention.")

open_statement("qa-35", says="Trained attention lets a word find the words it refers to.")

open_statement(
    "textbook-04 lesson-22 article-132b article-151 article-01b notebook-19b notebook-23b",
    says="Scaling decides whether training works at large d_k.",
)

open_statement("textbook-13", says="With a saturated softmax learning stalls.")

open_statement("lesson-05", says="Training makes relevant pairs of query and key score high.")
