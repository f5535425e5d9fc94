import numpy as np

from headrace.pipeline.held_completions import HOLD_S, HeldCompletions
from headrace.records import Completion


def completions(*names: str) -> list[Completion]:
    nothing = np.zeros(0, np.int32)
    return [
        Completion(
            request_id=name,
            token_ids=nothing,
            logprob=np.zeros(0, np.float32),
            policy_version=nothing,
            finish_reason="stop",
        )
        for name in names
    ]


def test_they_go_when_the_first_one_has_waited() -> None:
    held = HeldCompletions(num_slots=64)
    assert not held.due(now=0.0, step_s=10.0)  # nothing to send
    held.add(completions("a"), now=1.0)
    held.add(completions("b"), now=1.01)
    assert not held.due(now=1.01, step_s=0.005)
    assert held.due(now=1.016, step_s=0.005)  # the next chance would come too late
    assert [c.request_id for c in held.take()] == ["a", "b"]
    assert not held.due(now=2.0, step_s=1.0)
    held.add(completions("c"), now=3.0)
    assert not held.due(now=3.0, step_s=0.001)  # its own wait begins
    assert held.take() != ()


def test_a_slow_engine_holds_nothing_back() -> None:
    held = HeldCompletions(num_slots=64)
    held.add(completions("a"), now=1.0)
    assert held.due(now=1.0, step_s=1.1 * HOLD_S)


def test_a_quarter_of_the_slots_is_not_kept_waiting() -> None:
    held = HeldCompletions(num_slots=8)
    held.add(completions("a"), now=1.0)
    assert not held.due(now=1.0, step_s=0.0)
    held.add(completions("b"), now=1.0)
    assert held.due(now=1.0, step_s=0.0)
    one = HeldCompletions(num_slots=1)
    one.add(completions("a"), now=1.0)
    assert one.due(now=1.0, step_s=0.0)
