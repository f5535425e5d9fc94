import torch

from headrace.objectives.segments import segment_mean, segment_sum
from tests.unit.objectives.tokens import tensor


def test_every_token_gets_the_figure_of_its_own_sequence():
    segment = torch.tensor([7, 2, 7, 7, 2])
    values = tensor([1.0, 10.0, 2.0, 3.0, 20.0])
    assert segment_sum(values, segment).tolist() == [6.0, 30.0, 6.0, 6.0, 30.0]
    assert segment_mean(values, segment).tolist() == [2.0, 15.0, 2.0, 2.0, 15.0]


def test_gradient_reaches_every_token_of_the_sequence():
    values = tensor([1.0, 2.0, 5.0]).requires_grad_()
    segment_mean(values, torch.tensor([0, 0, 1])).sum().backward()
    assert values.grad.tolist() == [1.0, 1.0, 1.0]


def test_no_tokens_give_no_figures():
    assert segment_mean(torch.zeros(0), torch.zeros(0, dtype=torch.int64)).shape == (0,)
