"""Training of one attention layer: its loss and gradients, optimizers, two tasks, and the run itself.

Everything is in double precision and in NumPy alone.
"""

from sdpa.training.layer import Batch, Step, Weights, loss_and_gradients
from sdpa.training.run import OPTIMIZERS, Initial, OptimizerName, Run, initial_weights, train
from sdpa.training.tasks import D_MODEL, N_CLASSES, TASKS, Task, accuracy, draw_batch, loss_levels

__all__ = [
    "D_MODEL",
    "N_CLASSES",
    "OPTIMIZERS",
    "TASKS",
    "Batch",
    "Initial",
    "OptimizerName",
    "Run",
    "Step",
    "Task",
    "Weights",
    "accuracy",
    "draw_batch",
    "initial_weights",
    "loss_and_gradients",
    "loss_levels",
    "train",
]
