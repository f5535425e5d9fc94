"""``model=x`` beside ``model.dtype=y``: the order on the command line does not matter."""

from __future__ import annotations

import itertools

from headrace.config.load import load_recipe


def test_a_shorthand_and_keys_of_its_section_go_together_in_any_order() -> None:
    overrides = ["model=other/model", "model.dtype=bfloat16", "model.gradient_checkpointing=true"]
    for order in itertools.permutations(overrides):
        model = load_recipe("demo", list(order)).model
        assert (model.path, model.dtype, model.gradient_checkpointing) == ("other/model", "bfloat16", True)
