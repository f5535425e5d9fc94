"""When a prompt retires, and how often luck alone retires one."""

import json
from math import comb

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.curation.pass_rate import (
    PassRateMemory,
    PassRateRule,
    article_rule,
    least_count,
    outcomes,
    paper_rule,
)

RIGHT, WRONG = True, False


def results(passes, n):
    return [RIGHT] * passes + [WRONG] * (n - passes)


@pytest.mark.parametrize(("n", "chance"), [(16, 0.14), (32, 0.09), (64, 0.018)])
def test_chance_to_lose_a_prompt_of_true_rate_eight_tenths(n, chance):
    rule = PassRateRule(min_count=n)
    lost = sum(comb(n, k) * 0.8**k * 0.2 ** (n - k) for k in range(n + 1) if rule.met(k, n))
    assert lost == pytest.approx(chance, abs=0.005)


@pytest.mark.parametrize(
    ("passes", "n", "met"),
    [(9, 10, True), (90, 100, True), (89, 100, False), (27, 30, True), (63, 70, True), (14, 16, False)],
)
def test_a_rate_of_exactly_nine_tenths_is_enough(passes, n, met):
    assert PassRateRule(min_count=1).met(passes, n) is met


def test_too_few_completions_never_retire():
    memory = PassRateMemory(PassRateRule(min_count=33))
    assert memory.record(0, "p", results(16, 16)) == []
    assert memory.record(1, "p", results(16, 16)) == []
    assert memory.record(2, "p", [RIGHT]) == ["p"]


def test_the_papers_rule_looks_at_the_whole_history():
    memory = PassRateMemory(paper_rule(4))
    assert memory.record(0, "p", results(0, 4)) == []
    for admission in range(1, 9):
        assert memory.record(admission, "p", results(4, 4)) == []
    assert memory.counts("p") == (32, 36)
    assert memory.record(9, "p", results(4, 4)) == ["p"]  # 36 of 40
    assert memory.retired == ("p",)


def test_the_articles_rule_looks_at_the_newest_hundred_twice():
    memory = PassRateMemory(article_rule(20))
    assert memory.rule == PassRateRule(min_count=80, window=100, patience=2)
    for admission in range(5):
        assert memory.record(admission, "p", results(0, 20)) == []
    for admission in range(5, 9):
        assert memory.record(admission, "p", results(20, 20)) == []
    assert memory.counts("p") == (80, 100)
    assert memory.record(9, "p", results(20, 20)) == []  # 100 of the newest 100, for the first time
    assert memory.record(10, "p", results(20, 20)) == ["p"]


def test_the_window_forgets_single_completions_oldest_first():
    memory = PassRateMemory(PassRateRule(min_count=3, window=4, patience=9))
    memory.record(0, "p", [RIGHT, RIGHT, WRONG])
    memory.record(1, "p", [WRONG, WRONG])
    assert memory.counts("p") == (1, 4)


def test_the_rate_must_stay_high():
    memory = PassRateMemory(PassRateRule(min_count=10, patience=2))
    memory.record(0, "p", results(10, 10))
    assert memory.record(1, "p", results(6, 10)) == []  # 16 of 20 breaks the row
    assert memory.record(2, "p", results(20, 20)) == []  # 36 of 40
    assert memory.record(3, "p", results(10, 10)) == ["p"]


def test_retired_for_good_and_not_counted_any_more():
    memory = PassRateMemory(PassRateRule(min_count=1))
    assert memory.record(0, "p", [RIGHT]) == ["p"]
    assert memory.record(1, "p", results(0, 50)) == []
    assert memory.is_retired("p")
    assert memory.counts("p") == (0, 0)


def test_groups_enter_in_the_order_they_were_admitted():
    memory = PassRateMemory(PassRateRule(min_count=4, window=4))
    assert memory.record(2, "p", [RIGHT]) == []
    assert memory.record(1, "q", [RIGHT] * 4) == []
    assert memory.counts("q") == (0, 0)
    assert memory.record(0, "p", [RIGHT] * 3) == ["q", "p"]


def test_a_group_given_up_holds_nothing_back():
    memory = PassRateMemory(PassRateRule(min_count=1))
    assert memory.record(1, "p", [RIGHT]) == []
    assert memory.skip(0) == ["p"]


def test_a_group_sampled_again_counts_once():
    memory = PassRateMemory(PassRateRule(min_count=9))
    for _ in range(3):
        memory.record(0, "p", [RIGHT])
        memory.record(2, "p", [RIGHT])
    memory.skip(1)
    assert memory.counts("p") == (2, 2)


def test_completions_nobody_could_judge_change_nothing():
    memory = PassRateMemory(PassRateRule(min_count=2, patience=2))
    memory.record(0, "p", results(2, 2))
    assert memory.record(1, "p", []) == []
    assert memory.record(2, "p", results(2, 2)) == ["p"]


def test_outcomes_are_verdicts_or_scores(make_group):
    group = make_group([1.0, 0.6, None, 0.2], passed=[True, False, False, False])
    assert outcomes(group) == [True, False, False]
    assert outcomes(group, pass_threshold=0.6) == [True, True, False]


@given(
    st.permutations(range(12)),
    st.lists(st.tuples(st.sampled_from("pqr"), st.lists(st.booleans(), max_size=4)), min_size=12, max_size=12),
    st.integers(0, 12),
)
def test_neither_timing_nor_a_checkpoint_changes_who_retires(order, groups, cut):
    rule = PassRateRule(min_count=4, window=6, patience=2, threshold=0.75)
    plain = PassRateMemory(rule)
    for admission, (key, found) in enumerate(groups):
        plain.record(admission, key, found)
    resumed = PassRateMemory(rule)
    for done, admission in enumerate(order):
        if done == cut:
            resumed = PassRateMemory.from_dict(rule, json.loads(json.dumps(resumed.to_dict())))
        resumed.record(admission, *groups[admission])
    assert resumed.retired == plain.retired
    assert resumed.to_dict() == plain.to_dict()


def test_least_count():
    assert (least_count(16), least_count(16, 100), least_count(32, 100)) == (64, 64, 100)


@pytest.mark.parametrize(
    "keys", [{"threshold": 0.0}, {"threshold": 1.1}, {"min_count": 0}, {"patience": 0}, {"min_count": 5, "window": 4}]
)
def test_refusals(keys):
    with pytest.raises(ValueError, match=r"threshold|min_count|window"):
        PassRateRule(**{"min_count": 1, **keys})
