"""Published weights: what goes in comes out, never a mixture; damage, lineages, skipped versions, other processes."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

from headrace.errors import HeadraceError, PublicationError
from headrace.records import ProbeScores, TensorSpec, WeightUpdate
from headrace.transports import shared_weights
from headrace.transports.checksum import checksum, copy_with_checksum
from headrace.transports.memory import anonymous_memory
from headrace.transports.shared_weights import PAGE, SharedWeights, segment_bytes

SIZE = 1_000_003  # not a multiple of anything


def update(version, lineage=0, size=SIZE, probe=None, kind="full"):
    buffer = np.full(size, version % 251, dtype=np.uint8)
    spec = TensorSpec(name="layers.0.weight", dtype="bfloat16", shape=(size // 2,), offset=0, nbytes=size)
    return WeightUpdate(lineage=lineage, version=version, kind=kind, specs=(spec,), buffer=buffer, probe=probe)


@pytest.fixture
def segment():
    segment = SharedWeights.create(SIZE)
    yield segment
    segment.close()


def same_memory(segment):
    return SharedWeights(os.dup(segment.fileno()))


def test_an_update_comes_out_as_it_went_in(segment):
    probe = ProbeScores(
        token_ids=(np.arange(5, dtype=np.int32), np.arange(3, dtype=np.int32)),
        logprob=(np.linspace(-1, 0, 4, dtype=np.float32), np.zeros(2, np.float32)),
    )
    reader = same_memory(segment).reader()
    assert reader.newest(-1, 0) is None
    sent = update(0, probe=probe, kind="adapter")
    rng = np.random.default_rng(0)
    sent.buffer[:] = rng.integers(0, 256, SIZE)
    segment.writer().publish(sent)
    got = reader.newest(-1, 0)
    assert (got.lineage, got.version, got.kind, got.specs) == (0, 0, "adapter", sent.specs)
    np.testing.assert_array_equal(got.buffer, sent.buffer)
    for mine, theirs in zip((*got.probe.token_ids, *got.probe.logprob), (*probe.token_ids, *probe.logprob)):
        np.testing.assert_array_equal(mine, theirs)
    assert reader.newest(0, 0) is None


def test_versions_may_be_skipped_and_a_later_lineage_is_newer(segment):
    writer, reader = segment.writer(), segment.reader()
    for version in range(8):
        writer.publish(update(version))
    assert reader.newest(2, 0).version == 7
    assert reader.newest(7, 0) is None
    assert reader.newest(9, 0) is None
    writer.publish(update(5, lineage=1))  # the trainer came back from version 5
    got = reader.newest(7, 0)
    assert (got.lineage, got.version) == (1, 5)
    assert reader.newest(5, 1) is None
    assert reader.newest(-1, 2) is None


def test_the_buffer_is_reused_only_when_nothing_refers_to_it(segment):
    writer, reader = segment.writer(), segment.reader()
    writer.publish(update(1))
    held = reader.newest(0, 0).buffer[10:20]  # a view, as a tensor of the buffer would be
    writer.publish(update(2))
    second = reader.newest(1, 0)
    assert (held == 1).all()
    assert (second.buffer == 2).all()
    address = second.buffer.__array_interface__["data"][0]
    del second
    writer.publish(update(3))
    assert reader.newest(2, 0).buffer.__array_interface__["data"][0] == address


def test_smaller_updates_fit_and_larger_ones_are_refused(segment):
    writer, reader = segment.writer(), segment.reader()
    writer.publish(update(1, size=10))
    assert reader.newest(0, 0).buffer.tolist() == [1] * 10
    with pytest.raises(PublicationError, match="version 2 has 1000004 bytes of weights, the segment holds 1000003"):
        writer.publish(update(2, size=SIZE + 1))
    probe = ProbeScores(token_ids=(np.zeros(1 << 19, np.int32),), logprob=(np.zeros(1, np.float32),))
    with pytest.raises(PublicationError, match="fewer or shorter probe sequences"):
        writer.publish(update(2, probe=probe))
    assert reader.newest(0, 0).version == 1
    writer.publish(update(2))
    assert reader.newest(1, 0).version == 2


@pytest.mark.parametrize("place", ["weights", "manifest", "version"])
def test_damage_is_found(segment, place):
    segment.writer().publish(update(4))
    manifest, weights = segment.regions(1)
    first = shared_weights._W_SLOTS + shared_weights._FIELDS
    if place == "weights":
        weights[SIZE - 1] ^= 0x40
    elif place == "manifest":
        manifest[30] ^= 1
    else:
        segment.words[first + shared_weights._VERSION] = 5
    del manifest, weights
    with pytest.raises(PublicationError, match=r"version [45] \(lineage 0\) in shared memory does not match"):
        segment.reader().newest(3, 0)


def test_every_bit_counts_in_the_checksum():
    rng = np.random.default_rng(1)
    data = rng.integers(0, 256, 700_001, dtype=np.uint8)
    whole = checksum(data)
    target = np.zeros_like(data)
    assert copy_with_checksum(target, data) == whole
    assert (target == data).all()
    for position in (0, 1, 4095, 4096, 524_287, 524_288, 700_000, *rng.integers(0, 700_001, 20)):
        for bit in (0, 7):
            data[position] ^= 1 << bit
            assert checksum(data) != whole
            data[position] ^= 1 << bit
    swapped = np.concatenate([data[524_288:], data[:524_288]])
    assert checksum(swapped) != whole
    assert checksum(data[:-1]) != whole
    assert checksum(data[:0]) == 0


def test_readers_never_see_a_mixture(segment):
    """The writer makes no pause: whatever is read is one version, whole, and newer than the one before."""
    done = threading.Event()
    seen, problems = [], []

    def write():
        writer = segment.writer()
        version = 0
        while not done.is_set():
            version += 1
            writer.publish(update(version))

    def read():
        reader, have, count = same_memory(segment).reader(), 0, 0
        while not done.is_set():
            found = reader.newest(have, 0)
            if found is None:
                continue
            if not (found.buffer == found.version % 251).all() or found.version <= have:
                problems.append(found.version)
            have, count = found.version, count + 1
        seen.append(count)

    threads = [threading.Thread(target=target) for target in (write, read, read)]
    for thread in threads:
        thread.start()
    time.sleep(1.5)
    done.set()
    for thread in threads:
        thread.join()
    assert problems == []
    assert min(seen) > 5


def test_a_slot_that_is_being_written_is_not_read(segment):
    writer, reader = segment.writer(), segment.reader()
    writer.publish(update(1))
    sequence = shared_weights._W_SLOTS + shared_weights._FIELDS + shared_weights._SEQUENCE
    segment.words[sequence] += 1  # as if the writer had come round to this slot and stopped there
    assert reader.newest(0, 0) is None
    assert reader.num_retries == shared_weights.READ_ATTEMPTS


def test_a_writer_that_died_in_the_middle_is_followed_by_another(segment):
    segment.writer().publish(update(1))
    sequence = shared_weights._W_SLOTS + shared_weights._SEQUENCE  # slot 0 is next
    segment.words[sequence] += 1
    reader = segment.reader()
    assert reader.newest(0, 0).version == 1
    again = same_memory(segment)
    again.format(SIZE)
    again.writer().publish(update(1, lineage=1))
    assert segment.words[sequence] == 2
    assert reader.newest(1, 0).lineage == 1


def test_memory_is_opened_before_it_is_formatted():
    fd = anonymous_memory(segment_bytes(100))
    reading = SharedWeights(os.dup(fd))
    reader = reading.reader()
    assert reader.newest(-1, 0) is None
    with pytest.raises(PublicationError, match="was not formatted"):
        reading.writer()
    writing = SharedWeights(fd)
    with pytest.raises(PublicationError, match="the segment has"):
        writing.format(10 * PAGE)
    writing.format(100)
    writing.writer().publish(update(0, size=100))
    assert reader.newest(-1, 0).version == 0
    writing.words[1] = 99
    strange = same_memory(writing)
    with pytest.raises(PublicationError, match="format 99, not 1"):
        strange.reader().newest(-1, 0)
    for segment in (writing, reading, strange):
        segment.close()
        segment.close()


def test_too_much_memory_is_an_error_before_anything_is_touched():
    with pytest.raises(HeadraceError, match=r"cannot reserve 1000000000\.0 MB of shared memory: .* MB are available"):
        anonymous_memory(10**15)


def test_looking_for_news_costs_next_to_nothing(segment):
    segment.writer().publish(update(1))
    reader = segment.reader()
    best = min(_time_of_polls(reader) for _ in range(5))
    assert best / 1000 < 5e-6


def _time_of_polls(reader):
    started = time.perf_counter()
    for _ in range(1000):
        reader.newest(1, 0)
    return time.perf_counter() - started


READER = """
import sys, time
from headrace.transports.shared_weights import SharedWeights
reader = SharedWeights(int(sys.argv[1])).reader()
have, seen = -1, 0
deadline = time.monotonic() + 20
while have < 200 and time.monotonic() < deadline:
    found = reader.newest(have, 0)
    if found is not None:
        assert found.version > have and (found.buffer == found.version % 251).all(), found.version
        have, seen = found.version, seen + 1
        print(have, flush=True)
sys.exit(0 if have >= 200 else 3)
"""


def test_another_process_reads_what_is_written_meanwhile(segment):
    process = subprocess.Popen(
        [sys.executable, "-c", READER, str(segment.fileno())],
        pass_fds=[segment.fileno()],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    writer = segment.writer()
    writer.publish(update(0))
    assert process.stdout.readline() == "0\n"
    for version in range(1, 201):
        writer.publish(update(version))
        time.sleep(0.002)
    rest = process.communicate(timeout=20)[0].split()
    assert process.returncode == 0
    assert rest[-1] == "200"
    assert len(rest) > 10
