"""Tokens with a given log ratio, for tests of objectives: float64, with the log-probability as a leaf."""

import torch

from headrace.objectives.inputs import LossInputs
from headrace.objectives.update_figures import UpdateTokens


def tensor(values):
    return torch.tensor(values, dtype=torch.float64)


def loss_inputs(log_ratio, advantage, *, logprob=None, segment=None, **extra):
    """``logprob`` defaults to -1 everywhere; the anchor lies the log ratio below it."""
    size = len(log_ratio)
    current = tensor([-1.0] * size if logprob is None else logprob)
    return LossInputs(
        logprob=current.clone().requires_grad_(),
        anchor_logprob=current - tensor(log_ratio),
        advantage=tensor(advantage),
        segment=torch.tensor([0] * size if segment is None else segment, dtype=torch.int64),
        **extra,
    )


def update_tokens(ratio, advantage, *, logprob=None, noise=None):
    size = len(ratio)
    current = tensor([-1.0] * size if logprob is None else logprob)
    return UpdateTokens(
        logprob=current,
        anchor_logprob=current - tensor(ratio).log(),
        advantage=tensor(advantage),
        segment=torch.arange(size),
        noise=tensor([0.5] * size if noise is None else noise),
    )


def slope(loss, x):
    """Gradient [T] of the summed loss with respect to the log-probabilities."""
    return torch.autograd.grad(loss.value.sum(), x.logprob)[0].tolist()
