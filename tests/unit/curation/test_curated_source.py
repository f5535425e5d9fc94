"""Retirement seen from the run: prompts drawn, groups finished, a checkpoint between."""

import json

import numpy as np
import pytest

from headrace.config.algorithm import PassRateSection
from headrace.curation import curated_source as module
from headrace.curation.active_set import ActiveSet
from headrace.curation.curated_source import CuratedSource, curated_source
from headrace.curation.pass_rate import PassRateMemory, PassRateRule
from headrace.errors import DataError, RecordError
from headrace.metrics.names import METRICS
from headrace.records import Prompt


class Letters:
    """Rows that are letters, in the same order every epoch; equal letters are one problem."""

    name = "letters"

    def __init__(self, letters):
        self._letters = letters

    def __len__(self):
        return len(self._letters)

    def index(self, position):
        return position % len(self)

    def at(self, position):
        row = self.index(position)
        ids = np.array([1], np.int32)
        return Prompt(
            prompt_id=self._letters[row], source="letters", text="", token_ids=ids, row={}, index=row,
            epoch=position // len(self),
        )  # fmt: skip


def curated(letters, *, effective="now", minimum=1, min_count=2):
    source = Letters(letters)
    active = ActiveSet(len(source), source.index, minimum=minimum, effective=effective)
    return CuratedSource(source, PassRateMemory(PassRateRule(min_count=min_count)), active)


def names(source, numbers):
    return "".join(source.at(n).prompt_id for n in numbers)


def test_a_solved_prompt_comes_no_more(make_group):
    source = curated("abc")
    assert names(source, range(3)) == "abc"
    source.finished(make_group([1.0, 1.0], prompt_id="b", admission=0))
    assert names(source, range(3, 7)) == "acac"
    assert source.metrics() == {
        "curation/num_active": 2.0,
        "curation/num_retired": 1.0,
        "curation/num_reserve": 0.0,
        "curation/num_vacant": 1.0,
    }
    assert set(source.metrics()) <= set(METRICS)


def test_a_retired_prompt_finishes_its_epoch_when_so_told(make_group):
    source = curated("abcc", effective="next_epoch")
    assert names(source, range(3)) == "abc"
    source.finished(make_group([1.0, 1.0], prompt_id="b", admission=0))
    assert names(source, range(3, 9)) == "caccac"


def test_every_row_of_a_retired_problem_goes(make_group):
    source = curated("aba")
    assert names(source, range(1)) == "a"
    source.finished(make_group([1.0, 1.0], prompt_id="a", admission=0))
    assert names(source, range(1, 4)) == "bbb"
    assert source.active.num_retired == 2


def test_groups_that_cannot_be_judged_or_were_given_up_retire_nobody(make_group):
    source = curated("ab")
    names(source, range(2))
    source.finished(make_group([None, None], prompt_id="a", admission=0))
    source.gave_up(1)
    assert names(source, range(2, 6)) == "abab"


def test_a_retirement_that_waited_for_an_earlier_group(make_group):
    source = curated("abc")
    names(source, range(3))
    source.finished(make_group([1.0, 1.0], prompt_id="c", admission=2))
    source.finished(make_group([0.0, 1.0], prompt_id="a", admission=0))
    assert names(source, range(3, 6)) == "abc"
    source.gave_up(1)
    assert names(source, range(6, 8)) == "ab"
    assert names(source, range(8, 10)) == "ab"


def test_a_resumed_run_goes_on_where_it_was(make_group):
    source = curated("abcd")
    names(source, range(3))
    source.finished(make_group([1.0, 1.0], prompt_id="b", admission=0))
    resumed = curated("abcd")
    resumed.load(json.loads(json.dumps(source.to_dict())))
    assert names(source, range(3, 12)) == names(resumed, range(3, 12)) == "dacdacdac"
    for each in (source, resumed):
        each.finished(make_group([1.0, 1.0], prompt_id="a", admission=1))
    assert names(source, range(12, 16)) == names(resumed, range(12, 16)) == "dcdc"


def test_prompts_are_asked_for_in_order():
    source = curated("ab")
    with pytest.raises(RecordError, match="prompt 1 was asked for, and 0 is next"):
        source.at(1)


def test_too_few_prompts_end_the_run(make_group):
    source = curated("ab", minimum=2)
    names(source, range(2))
    source.finished(make_group([1.0, 1.0], prompt_id="a", admission=0))
    with pytest.raises(DataError, match="1 prompts are left"):
        source.at(2)
    assert len(source) == 2


def test_retirement_can_begin_in_the_middle_of_a_run(make_group):
    """Five prompts were drawn and three groups admitted without it: group 3 is the first that counts."""
    source = curated("abc")
    source.begin_at(5, 3)
    source.finished(make_group([1.0, 1.0], prompt_id="c", admission=2))
    assert names(source, range(5, 8)) == "cab"
    source.finished(make_group([1.0, 1.0], prompt_id="a", admission=3))
    assert names(source, range(8, 12)) == "cbcb"


def test_an_endless_source_that_is_used_up_says_so(make_group, monkeypatch):
    """Every row of the stream is the same problem, which retires."""

    class Endless(Letters):
        def __len__(self):
            return 1 << 40

        def at(self, position):
            return Prompt(
                prompt_id="a", source="letters", text="", token_ids=np.array([1], np.int32), row={}, index=position
            )

    monkeypatch.setattr(module, "MOST_PASSED_OVER", 50)
    part = PassRateSection(min_count=2, reserve_frac=0.5)
    source = curated_source(Endless("a"), part, group_size=2, groups_per_step=1, seed=0)
    assert source.active.num_reserve == 0  # what comes later is its reserve
    assert source.at(0).index == 0
    assert source.metrics() == {"curation/num_retired": 0.0}
    source.finished(make_group([1.0, 1.0], prompt_id="a", admission=0))
    with pytest.raises(DataError, match="50 rows of 'letters' in a row are of problems that retired"):
        source.at(1)


def test_the_source_a_recipe_asks_for(make_group):
    """Threshold .5 over the newest 4, at two groups in a row, rewards of .5 count; four rows, one of them held back."""
    part = PassRateSection(
        threshold=0.5, window=4, min_count=2, patience=2, effective="now", reserve_frac=0.25, pass_threshold=0.5
    )
    source = curated_source(Letters("abcd"), part, group_size=2, groups_per_step=2, seed=3)
    reserve = set("abcd") - set(names(source, range(3)))
    first = source.at(3).prompt_id
    for admission in (0, 1):
        assert source.metrics()["curation/num_retired"] == 0
        source.finished(make_group([0.5, 0.0], prompt_id=first, admission=admission))
    assert source.metrics()["curation/num_retired"] == 1
    drawn = set(names(source, range(4, 12)))
    assert first not in drawn
    assert reserve < drawn


@pytest.mark.parametrize(("window", "min_count", "count"), [(None, None, 8), (5, None, 5), (None, 3, 3)])
def test_the_least_count_is_four_groups_unless_it_is_given(make_group, window, min_count, count):
    part = PassRateSection(window=window, min_count=min_count)
    source = curated_source(Letters("ab"), part, group_size=2, groups_per_step=1, seed=0)
    assert source.memory.rule.min_count == count
