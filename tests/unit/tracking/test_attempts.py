from pathlib import Path

from headrace.tracking.attempts import begin_attempt, last_steps, still_counts


def test_attempts_are_numbered(tmp_path: Path) -> None:
    assert begin_attempt(tmp_path) == 1
    assert begin_attempt(tmp_path, 20) == 2
    assert begin_attempt(tmp_path, 10) == 3


def test_a_later_resume_cuts_every_earlier_attempt(tmp_path: Path) -> None:
    for resume_step in (0, 20, 10):
        begin_attempt(tmp_path, resume_step)
    cuts = last_steps(tmp_path)
    assert (cuts[1], cuts[2]) == (10, 10)
    assert still_counts({"step": 10, "attempt": 1}, cuts)
    assert not still_counts({"step": 11, "attempt": 1}, cuts)
    assert not still_counts({"step": 21, "attempt": 2}, cuts)
    assert still_counts({"step": 1000, "attempt": 3}, cuts)


def test_a_second_resume_further_on_keeps_the_first_cut(tmp_path: Path) -> None:
    for resume_step in (0, 20, 30):
        begin_attempt(tmp_path, resume_step)
    cuts = last_steps(tmp_path)
    assert (cuts[1], cuts[2]) == (20, 30)


def test_without_a_record_of_attempts_every_row_counts(tmp_path: Path) -> None:
    assert still_counts({"step": 5, "attempt": 1}, last_steps(tmp_path))
