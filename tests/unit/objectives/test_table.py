import math
import typing

import pytest
import torch

from headrace.config.algorithm import AlgorithmSection
from headrace.config.losses import LossSection
from headrace.errors import ConfigError, RecordError
from headrace.objectives.inputs import LossInputs, stack_inputs
from headrace.objectives.objective import AdaptiveState, build_objective
from headrace.objectives.table import LOSSES, keys_of, loss_named
from headrace.objectives.update_figures import UpdateTokens
from tests.unit.objectives.tokens import loss_inputs

SECTIONS = {
    section.model_fields["name"].annotation.__args__[0]: section
    for section in typing.get_args(typing.get_args(LossSection)[0])
}


def test_a_recipe_section_becomes_an_objective():
    section = AlgorithmSection(loss={"name": "ppo_clip", "clip_high": 0.28}).model_dump()
    x = loss_inputs([math.log(2.0)], [1.0])
    assert build_objective(section).loss(x, None, AdaptiveState()).value.item() == pytest.approx(-1.28)


def test_every_loss_section_has_a_row_and_every_row_a_section():
    assert set(SECTIONS) == set(LOSSES)


@pytest.mark.parametrize("name", SECTIONS)
def test_keys_anchor_and_defaults_of_section_and_row_agree(name):
    section, row = SECTIONS[name], LOSSES[name]
    computed = {"bapo": {"ratio_min", "ratio_max"}, "bapo_balanced": {"balance"}}.get(name, set())
    assert set(section.model_fields) - {"name"} == (keys_of(row.kernel) | keys_of(row.figures)) - computed
    assert section.wants_anchor == row.anchor
    build_objective({"loss": section(name=name).model_dump()})


def test_unknown_objective_names_the_nearest():
    with pytest.raises(ConfigError, match="Did you mean 'cispo'"):
        loss_named("cipso")


@pytest.mark.parametrize(
    ("name", "updates", "anchor"),
    [
        ("ppo_clip", 1, "behaviour"),
        ("ppo_clip", 4, "proximal"),
        ("gspo", 4, "proximal"),
        ("cispo", 1, "behaviour"),
        ("cispo", 4, "behaviour"),
        ("bapo", 4, "behaviour"),
    ],
)
def test_anchor(name, updates, anchor):
    assert LOSSES[name].anchor_for(updates) == anchor


def test_inputs_of_other_shapes_are_refused():
    with pytest.raises(RecordError, match="advantage is \\[2\\], logprob \\[3\\]"):
        LossInputs(
            logprob=torch.zeros(3), anchor_logprob=torch.zeros(3), advantage=torch.zeros(2), segment=torch.zeros(3)
        )
    three = torch.zeros(3)
    with pytest.raises(RecordError, match="noise is \\[1\\], not \\[3\\]"):
        UpdateTokens(logprob=three, anchor_logprob=three, advantage=three, segment=three, noise=torch.zeros(1))


def test_stacked_inputs_keep_fields_every_part_has():
    first, second = loss_inputs([2.0], [1.0]), loss_inputs([3.0], [-1.0])
    both = stack_inputs([first, second])
    assert both.advantage.tolist() == [1.0, -1.0]
    assert both.entropy is None
