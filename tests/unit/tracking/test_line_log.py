"""Lines are whole or not there, and a full disk holds them back but loses none."""

import errno
import logging
from io import FileIO
from pathlib import Path

import pytest

from headrace.tracking.jsonl import LineLog, read_lines, write_line


class TightFile(FileIO):
    """A file on a disk with ``room`` bytes left."""

    room = 0

    def write(self, data: bytes) -> int:  # type: ignore[override]
        if self.room == 0:
            raise OSError(errno.ENOSPC, "No space left on device")
        written = super().write(data[: self.room])
        self.room -= written
        return written


def tight_log(path: Path, room: int) -> tuple[LineLog, TightFile]:
    log = LineLog(path, "metrics")
    log._file.close()
    file = log._file = TightFile(path, "a")
    file.room = room
    return log, file


def test_lines_without_space_are_counted_and_written_later_in_order(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "metrics.jsonl"
    log, file = tight_log(path, room=9)  # one line of 9 bytes
    with caplog.at_level(logging.WARNING):
        for n in range(3):
            log.append(f'{{"n": {n}}}')
    assert log.num_unwritten == 2
    assert read_lines(path) == [{"n": 0}]
    assert caplog.text.count("the disk is full: metrics are not written") == 1
    file.room = 100
    log.append('{"n": 3}')
    assert log.num_unwritten == 0
    assert path.read_text() == '{"n": 0}\n{"n": 1}\n{"n": 2}\n{"n": 3}\n'


def test_half_a_line_is_taken_back(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    log, file = tight_log(path, room=9 + 4)
    log.append('{"n": 0}')
    log.append('{"n": 1}')
    assert path.read_text() == '{"n": 0}\n'
    file.room = 100
    log.close()
    log.close()
    assert path.read_text() == '{"n": 0}\n{"n": 1}\n'


def test_lines_that_never_found_space_are_still_counted_when_it_closes(tmp_path: Path) -> None:
    log, _ = tight_log(tmp_path / "evals.jsonl", room=0)
    log.append('{"n": 0}')
    log.close()
    assert log.num_unwritten == 1


def test_a_line_that_is_written_alone_raises(tmp_path: Path) -> None:
    with TightFile(tmp_path / "x", "a") as file:
        file.room = 5
        with pytest.raises(OSError, match="only 5 of 9 bytes") as caught:
            write_line(file, '{"n": 0}')
    assert caught.value.errno == errno.ENOSPC
    assert (tmp_path / "x").read_bytes() == b""


class BrokenFile(FileIO):
    def write(self, data: bytes) -> int:  # type: ignore[override]
        raise OSError(errno.EIO, "Input/output error")


def test_other_errors_are_raised(tmp_path: Path) -> None:
    log = LineLog(tmp_path / "x", "metrics")
    log._file = BrokenFile(tmp_path / "x", "a")
    with pytest.raises(OSError, match="Input/output error"):
        log.append("{}")
