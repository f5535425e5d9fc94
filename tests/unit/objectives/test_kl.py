"""Estimators of the divergence: values, and what their gradients are, by enumeration over four outcomes."""

import math

import pytest
import torch

from headrace.errors import RecordError
from headrace.objectives.kl import kl_estimate, kl_penalty
from tests.unit.objectives.tokens import loss_inputs, slope, tensor

PI = tensor([0.4, 0.3, 0.2, 0.1])
REFERENCE = PI.flip(0)
SAMPLER = tensor([0.1, 0.4, 0.3, 0.2])


@pytest.mark.parametrize(
    ("logprob", "reference", "k1", "k2", "k3"),
    [
        ([-0.5, -1.5], [-1.5, -1.0], [1.0, -0.5], [0.5, 0.125], [math.exp(-1), math.exp(0.5) - 1.5]),
        ([-1.2], [-0.9], [-0.3], [0.045], [0.049859]),
        ([-1.0] * 3, [0.0, -15.0, -30.0], [-1.0, 14.0, 29.0], [0.5, 98.0, 420.5], [0.7183, 13.0, 28.0]),
    ],
)
def test_known_values(logprob, reference, k1, k2, k3):
    for name, expected in (("k1", k1), ("k2", k2), ("k3", k3)):
        value = kl_estimate(tensor(logprob), tensor(reference), name)
        assert value.tolist() == pytest.approx(expected, abs=2e-5)


def divergence(p, q):
    return (p * (p / q).log()).sum()


def gradient(make):
    """Gradient with respect to the logits of pi of what ``make`` makes of log pi."""
    logits = PI.log().requires_grad_()
    return torch.autograd.grad(make(logits.log_softmax(0)), logits)[0].tolist()


def test_values_of_k1_and_k3_are_unbiased_and_of_k2_is_not():
    exact = divergence(PI, REFERENCE).item()
    k1, k2, k3 = ((PI * kl_estimate(PI.log(), REFERENCE.log(), name)).sum().item() for name in ("k1", "k2", "k3"))
    assert (k1, k3) == pytest.approx((exact, exact))
    assert abs(k2 - exact) > 0.01


@pytest.mark.parametrize(
    ("estimator", "of"),
    [
        ("k1", lambda log_pi: 0.0 * log_pi.sum()),
        ("k2", lambda log_pi: divergence(log_pi.exp(), REFERENCE)),
        ("k3", lambda log_pi: divergence(REFERENCE, log_pi.exp())),
    ],
)
def test_on_policy_each_estimator_has_the_gradient_of_something_else(estimator, of):
    seen = gradient(lambda log_pi: (PI * kl_estimate(log_pi, REFERENCE.log(), estimator)).sum())
    assert seen == pytest.approx(gradient(of), abs=1e-12)


@pytest.mark.parametrize("estimator", ["k1", "k3"])
def test_a_ratio_with_gradient_gives_the_divergences_own_gradient_on_any_samplers_tokens(estimator):
    def penalty(log_pi):
        x = loss_inputs([0.0] * 4, [0.0] * 4)
        x = type(x)(
            logprob=log_pi,
            anchor_logprob=SAMPLER.log(),
            advantage=x.advantage,
            segment=x.segment,
            reference_logprob=REFERENCE.log(),
        )
        return (SAMPLER * kl_penalty(x, estimator=estimator, coef=0.5, importance=True).value).sum()

    assert gradient(penalty) == pytest.approx(gradient(lambda p: 0.5 * divergence(p.exp(), REFERENCE)), abs=1e-12)


def test_importance_weight_of_an_old_token():
    x = loss_inputs([-0.693147], [0.0], logprob=[-1.2], reference_logprob=tensor([-0.9]))
    loss = kl_penalty(x, estimator="k3", coef=1.0, importance=True)
    assert loss.value.item() == pytest.approx(0.024929, abs=1e-6)
    assert loss.stats["kl"].item() == pytest.approx(0.049859, abs=1e-6)
    # d (r k) / d log pi = r k + r (1 - e^.3); a detached ratio would leave the second term alone.
    assert slope(loss, x)[0] == pytest.approx(0.5 * (0.0498588 + 1 - math.exp(0.3)), abs=1e-6)


def test_correction_weight_belongs_to_the_importance_form():
    keys = {"reference_logprob": tensor([-0.5]), "correction_weight": tensor([0.5])}
    x = loss_inputs([0.0], [0.0], **keys)
    assert kl_penalty(x, estimator="k1", coef=1.0).value.item() == pytest.approx(-0.5)
    assert kl_penalty(x, estimator="k1", coef=1.0, importance=True).value.item() == pytest.approx(-0.25)


@pytest.mark.parametrize("estimator", ["k1", "k2", "k3"])
@pytest.mark.parametrize("reference", [-800.0, 800.0, -math.inf])
def test_far_away_references_are_bounded_counted_and_have_no_gradient(estimator, reference):
    x = loss_inputs([0.0, 0.0], [0.0, 0.0], reference_logprob=tensor([reference, -1.0]))
    loss = kl_penalty(x, estimator=estimator, coef=1.0)
    assert torch.isfinite(loss.value).all()
    assert slope(loss, x)[0] == 0.0
    assert loss.stats["kl_log_ratio_clamped"].tolist() == [1, 0]


def test_the_reference_must_be_there():
    with pytest.raises(RecordError, match="kl_penalty needs the loss input reference_logprob"):
        kl_penalty(loss_inputs([0.0], [1.0]), estimator="k3", coef=0.1)
