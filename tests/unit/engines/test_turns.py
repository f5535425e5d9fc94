from headrace.engines.turns import Turns


def test_every_fourth_step_is_pinned_while_both_have_work() -> None:
    turns = Turns()
    assert [turns.take(policy=True, pinned=True) for _ in range(8)] == ["policy", "policy", "policy", "pinned"] * 2


def test_a_lone_set_gets_every_step_and_earns_no_credit() -> None:
    turns = Turns()
    assert [turns.take(policy=False, pinned=True) for _ in range(3)] == ["pinned"] * 3
    assert [turns.take(policy=True, pinned=False) for _ in range(9)] == ["policy"] * 9
    assert turns.take(policy=True, pinned=True) == "policy"
    assert turns.take(policy=False, pinned=False) is None
