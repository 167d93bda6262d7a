from __future__ import annotations

import math
import socket
import threading

import pytest

from workers.trainer.protocol import Channel, Refused, check_seq


def pair(token: str = "t", other: str = "t") -> tuple[Channel, Channel, socket.socket]:
    left, right = socket.socketpair()
    return Channel(left, token), Channel(right, other), left


def test_a_message_arrives_without_its_token_and_keeps_nan() -> None:
    left, right, _ = pair()
    left.send(3, "done", {"loss": math.nan, "text": "a\nb"})
    message = right.receive()
    assert message is not None
    assert math.isnan(message.pop("loss"))
    assert message == {"seq": 3, "type": "done", "text": "a\nb"}


def test_the_token_of_another_lease_is_refused() -> None:
    left, right, _ = pair("old", "new")
    left.send(1, "step", {})
    with pytest.raises(Refused, match="another lease"):
        right.receive()


@pytest.mark.parametrize(
    "line",
    [b"\n", b"[]\n", b'{"seq": 1}\n', b'{"seq": "1", "type": "step", "token": "t"}\n', b"\xff\n"],
)
def test_a_line_that_is_no_message_is_refused(line: bytes) -> None:
    _, right, raw = pair()
    raw.sendall(line)
    with pytest.raises(Refused, match="no message"):
        right.receive()


def test_half_a_line_before_the_end_is_no_message() -> None:
    left, right, raw = pair()
    raw.sendall(b'{"seq": 1, "type": "step", "token": "t"}')
    left.close()
    assert right.receive() is None


def test_closing_wakes_a_receiver_in_another_thread() -> None:
    left, _right, _ = pair()
    received: list[object] = []
    receiver = threading.Thread(target=lambda: received.append(left.receive()))
    receiver.start()
    left.close()
    receiver.join(10)
    assert received == [None]


def test_an_answer_to_another_request_is_refused() -> None:
    with pytest.raises(Refused, match="message 4 instead of 5"):
        check_seq({"seq": 4}, 5)
