"""Channels: framing, large arrays, time-outs, ends, descriptors; threads and event loops."""

from __future__ import annotations

import asyncio
import os
import socket
import struct
import threading
import time

import numpy as np
import pytest

from headrace.errors import ChannelClosed, RecordError, WaitTimeout
from headrace.protocols import Transport
from headrace.transports import frames
from headrace.transports.channel import AsyncChannel, Channel, from_fd, pair


@pytest.fixture
def ends():
    left, right = pair("left", "right")
    yield left, right
    left.close()
    right.close()


def in_thread(function, *args):
    thread = threading.Thread(target=function, args=args)
    thread.start()
    return thread


def test_a_channel_is_a_transport_and_keeps_the_order(ends):
    left, right = ends
    assert isinstance(left, Channel)
    transport: Transport = left
    for number in range(100):
        transport.send(("n", number))
    right.send({"other": "way"})
    assert [right.recv(timeout_s=1.0) for _ in range(100)] == [("n", number) for number in range(100)]
    assert left.recv(timeout_s=1.0) == {"other": "way"}


def test_a_frame_is_its_length_and_a_pickle():
    # 8 bytes of length; then 16 bytes of counts (pickle's length, no arrays) and the pickle.
    (piece,) = frames.encode([1, 2])
    (length,) = struct.unpack_from("<Q", piece)
    assert length == piece.nbytes - 8
    assert struct.unpack_from("<QQ", piece, 8) == (length - 16, 0)
    assert frames.decode(piece[8:]) == [1, 2]


def test_large_arrays_are_not_copied_and_come_out_writable_and_aligned(ends):
    left, right = ends
    big = np.arange(300_001, dtype=np.float32)
    odd = np.arange(70_001, dtype=np.uint8)
    small = np.arange(10, dtype=np.int32)
    pieces = frames.encode((big, odd, small))
    assert sum(np.shares_memory(np.asarray(piece), array) for piece in pieces for array in (big, odd)) == 2
    sender = in_thread(left.send, (big, odd, small))
    got = right.recv(timeout_s=5.0)
    sender.join()
    for array, sent in zip(got, (big, odd, small)):
        np.testing.assert_array_equal(array, sent)
        assert array.dtype == sent.dtype
        assert array.flags.writeable
        assert array.flags.aligned
    assert np.shares_memory(got[0].base, got[0])


def test_a_fortran_ordered_array_and_an_empty_one_survive(ends):
    left, right = ends
    message = {"f": np.asfortranarray(np.arange(40_000.0).reshape(200, 200)), "e": np.empty((0, 3)), "n": None}
    sender = in_thread(left.send, message)
    got = right.recv(timeout_s=5.0)
    sender.join()
    np.testing.assert_array_equal(got["f"], message["f"])
    assert got["e"].shape == (0, 3)


def test_recv_says_whom_it_waited_for_and_loses_nothing(ends):
    left, right = ends
    with pytest.raises(WaitTimeout, match=r"^waited 0\.05 s for a message from left$"):
        right.recv(timeout_s=0.05)
    frame = frames.encode("in three parts")[0]
    for part in (frame[:3], frame[3:20]):
        left._sock.send(part)
        with pytest.raises(WaitTimeout):
            right.recv(timeout_s=0.02)
    left._sock.send(frame[20:])
    assert right.recv(timeout_s=1.0) == "in three parts"


def test_poll(ends):
    left, right = ends
    assert not right.poll()
    started = time.monotonic()
    assert not right.poll(0.05)
    assert time.monotonic() - started >= 0.05
    left.send(1)
    assert right.poll()
    assert right.recv() == 1
    left.close()
    assert right.poll()


def test_the_end_of_a_channel_names_the_peer_after_the_last_message(ends):
    left, right = ends
    left.send("last words")
    left.close()
    assert right.recv(timeout_s=1.0) == "last words"
    with pytest.raises(ChannelClosed, match="the channel to left is closed"):
        right.recv(timeout_s=1.0)
    with pytest.raises(ChannelClosed, match="the channel to left is closed"):
        right.send("too late")
    with pytest.raises(ChannelClosed):
        left.send("mine is closed")
    with pytest.raises(ChannelClosed):
        left.recv()
    with pytest.raises(ChannelClosed):
        left.poll()
    left.close()


def test_an_end_in_the_middle_of_a_message(ends):
    left, right = ends
    left._sock.send(frames.encode("cut off")[0][:12])
    left.close()
    with pytest.raises(ChannelClosed):
        right.recv(timeout_s=1.0)


def test_a_peer_that_does_not_read_is_a_timeout_and_closes_the_channel():
    left, right = pair("left", "right")
    left.send_timeout_s = 0.1
    with pytest.raises(WaitTimeout, match=r"waited 0\.1 s for right to read a message"):
        left.send(bytes(50_000_000))
    assert left.closed
    right.close()


def test_many_threads_may_send(ends):
    left, right = ends
    arrays = [np.full(50_000, number, dtype=np.int64) for number in range(8)]
    threads = [in_thread(lambda a=a: [left.send(a) for _ in range(10)]) for a in arrays]
    counts = [0] * 8
    for _ in range(80):
        array = right.recv(timeout_s=10.0)
        assert (array == array[0]).all()
        counts[array[0]] += 1
    for thread in threads:
        thread.join()
    assert counts == [10] * 8


def test_nonsense_is_not_taken_for_a_message():
    a, b = socket.socketpair()
    channel = Channel(b, peer="a stranger")
    a.send(b"GET / HTTP/1.1\r\n\r\n")
    with pytest.raises(RecordError, match="this is not a channel"):
        channel.recv(timeout_s=1.0)
    a.close()
    channel.close()


def test_a_channel_travels_through_a_channel(ends):
    left, right = ends
    near, far = pair("near", "far")
    left.send("before")
    left.send_fd({"peer": "near"}, far.fileno())
    left.send("after")
    far.close()
    assert right.recv_fd(timeout_s=1.0) == ("before", None)
    message, fd = right.recv_fd(timeout_s=1.0)
    assert message == {"peer": "near"}
    assert not os.get_inheritable(fd)
    assert right.recv(timeout_s=1.0) == "after"
    arrived = from_fd(fd, peer="near")
    near.send("through the new one")
    assert arrived.recv(timeout_s=1.0) == "through the new one"
    arrived.close()
    with pytest.raises(ChannelClosed):
        near.recv(timeout_s=1.0)
    near.close()


def test_descriptors_nobody_wants_are_closed(ends):
    left, right = ends
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(50):
        left.send_fd("take this", 0)
        assert right.recv(timeout_s=1.0) == "take this"
    left.send_fd("never taken", 0)
    assert right._receive_some()
    with pytest.raises(ChannelClosed, match="in the middle of a message"):
        right.detach()
    right.close()
    left.close()
    assert len(os.listdir("/proc/self/fd")) == before - 2


def test_async_both_ways_with_large_arrays():
    async def talk():
        first, second = pair("first", "second")
        a, b = await AsyncChannel.open(first), await AsyncChannel.open(second)
        array = np.arange(1_000_000, dtype=np.float64)
        for number in range(20):
            a.send((number, array))
            b.send(number)
        assert a.unsent_bytes > 0
        for number in range(20):
            got, received = await b.recv(timeout_s=10.0)
            assert got == number
            assert (received == array).all()
            assert await a.recv(timeout_s=10.0) == number
        await a.drain(timeout_s=5.0)
        a.close()
        with pytest.raises(ChannelClosed, match="the channel to first is closed"):
            await b.recv(timeout_s=5.0)
        assert b.closed
        with pytest.raises(ChannelClosed):
            b.send(1)
        with pytest.raises(ChannelClosed):
            await b.drain()

    asyncio.run(talk())


def test_async_against_a_thread_and_leftover_messages():
    async def talk():
        mine, theirs = pair("loop", "thread")

        def serve():
            while (message := theirs.recv(timeout_s=5.0)) != "stop":
                theirs.send(message * 2)
            theirs.send("bye")
            theirs.close()

        thread = in_thread(serve)
        channel = await AsyncChannel.open(mine)
        for number in range(100):
            channel.send(number)
        assert [await channel.recv() for _ in range(100)] == [2 * number for number in range(100)]
        channel.send("stop")
        await asyncio.to_thread(thread.join)
        assert await channel.recv(timeout_s=1.0) == "bye"
        with pytest.raises(ChannelClosed, match="the channel to thread is closed"):
            await channel.recv()

    asyncio.run(talk())


def test_async_timeouts_and_cancellation_lose_nothing():
    async def talk():
        mine, theirs = pair("loop", "thread")
        channel = await AsyncChannel.open(mine)
        with pytest.raises(WaitTimeout, match=r"waited 0\.02 s for a message from thread"):
            await channel.recv(timeout_s=0.02)
        waiting = asyncio.create_task(channel.recv())
        await asyncio.sleep(0.01)
        waiting.cancel()
        theirs.send("kept")
        with pytest.raises(asyncio.CancelledError):
            await waiting
        assert await channel.recv(timeout_s=1.0) == "kept"
        channel.send(bytes(50_000_000))
        with pytest.raises(WaitTimeout, match=r"waited 0\.05 s for thread to read what was sent"):
            await channel.drain(timeout_s=0.05)
        theirs.close()
        channel.close()

    asyncio.run(talk())


def test_async_stops_reading_when_nobody_takes_the_messages(monkeypatch):
    monkeypatch.setattr("headrace.transports.async_channel._UNREAD_HIGH", 10)

    async def talk():
        mine, theirs = pair("loop", "thread")
        channel = await AsyncChannel.open(mine)
        for number in range(200):
            theirs.send(number)
        await asyncio.sleep(0.05)
        assert channel.num_unread == 10
        assert [await channel.recv(timeout_s=1.0) for _ in range(200)] == list(range(200))
        theirs.close()
        channel.close()

    asyncio.run(talk())


def test_a_message_that_cannot_be_read_closes_an_async_channel_with_its_reason():
    async def talk():
        mine, theirs = pair("loop", "thread")
        channel = await AsyncChannel.open(mine)
        theirs._sock.send(struct.pack("<QQQ", 20, 4, 0) + b"junk")
        with pytest.raises(ChannelClosed) as caught:
            await channel.recv(timeout_s=1.0)
        assert caught.value.__cause__ is not None
        theirs.close()

    asyncio.run(talk())
