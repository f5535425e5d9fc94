import math

import pytest
import torch

from headrace.config.losses import CISPO, PPOClip
from headrace.errors import ConfigError, RecordError
from headrace.objectives.corrections import truncated_importance
from headrace.objectives.inputs import LossInputs, stack_inputs
from headrace.objectives.table import LOSSES, build_kernel, loss_named


def one_token(ratio, advantage):
    return LossInputs(
        logprob=torch.tensor([math.log(ratio)], dtype=torch.float64),
        anchor_logprob=torch.zeros(1, dtype=torch.float64),
        advantage=torch.tensor([advantage], dtype=torch.float64),
        segment=torch.zeros(1, dtype=torch.int64),
    )


def test_a_config_section_becomes_a_kernel():
    kernel = build_kernel(PPOClip(name="ppo_clip", clip_high=0.28).model_dump())
    assert kernel(one_token(2.0, 1.0)).value.item() == pytest.approx(-1.28)
    kernel = build_kernel(CISPO(name="cispo", ratio_max=4.0).model_dump())
    assert kernel(one_token(100.0, 1.0)).value.item() == pytest.approx(-4.0 * math.log(100))


def test_every_loss_section_has_a_row():
    assert {section.model_fields["name"].annotation.__args__[0] for section in (PPOClip, CISPO)} == set(LOSSES)


def test_unknown_objective_names_the_nearest():
    with pytest.raises(ConfigError, match="Did you mean 'cispo'"):
        loss_named("cipso")


@pytest.mark.parametrize(
    ("name", "updates", "anchor"),
    [
        ("ppo_clip", 1, "behaviour"),
        ("ppo_clip", 4, "proximal"),
        ("cispo", 1, "behaviour"),
        ("cispo", 4, "behaviour"),
    ],
)
def test_anchor(name, updates, anchor):
    assert LOSSES[name].anchor_for(updates) == anchor


def test_truncated_correction_caps_from_above_and_has_no_gradient():
    proximal = torch.tensor([0.0, 0.0, 0.0, -800.0], requires_grad=True)
    behaviour = torch.tensor([0.0, -math.log(1.5), -math.log(4.0), 0.0])
    weight = truncated_importance(proximal, behaviour)
    assert weight.tolist() == pytest.approx([1.0, 1.5, 2.0, math.exp(-20)])
    assert not weight.requires_grad


def test_inputs_of_other_shapes_are_refused():
    with pytest.raises(RecordError, match="advantage is \\[2\\], logprob \\[3\\]"):
        LossInputs(
            logprob=torch.zeros(3), anchor_logprob=torch.zeros(3), advantage=torch.zeros(2), segment=torch.zeros(3)
        )


def test_stacked_inputs_keep_fields_every_part_has():
    first, second = one_token(2.0, 1.0), one_token(3.0, -1.0)
    both = stack_inputs([first, second])
    assert both.advantage.tolist() == [1.0, -1.0]
    assert both.entropy is None
