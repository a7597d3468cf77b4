"""`tickscope load zmq` against libzmq, by pyzmq: what was sent arrives there, each message once."""

import json
import subprocess

import pytest
import zmq

from conftest import TREE, own_address


@pytest.fixture
def pull():
    """A PULL socket, and where it was bound."""
    with zmq.Context() as context, context.socket(zmq.PULL) as socket:
        socket.setsockopt(zmq.RCVTIMEO, 60_000)
        address = own_address()
        port = socket.bind_to_random_port(f"tcp://{address}")
        yield socket, f"{address}:{port}"


@pytest.mark.parametrize("size", [8, 255, 256, 70_000])
def test_every_message_of_several_senders_arrives_at_libzmq_once(tickscope, pull, size):
    socket, address = pull
    words = ["load", "zmq", address, "--rate", "1000", "--seconds", "0.3", "--senders", "3", "--size", str(size)]
    load = subprocess.Popen([tickscope, *words, "--linger", "60"], stdout=subprocess.PIPE, text=True)
    messages = [socket.recv() for _ in range(300)]
    printed, _ = load.communicate(timeout=60)
    assert load.returncode == 0 and json.loads(printed)["sent"] == 300
    assert {len(message) for message in messages} == {size}
    assert sorted(int.from_bytes(message[:8], "little") for message in messages) == list(range(300))


def test_a_socket_of_libzmq_that_is_no_pull_is_refused(tickscope):
    with zmq.Context() as context, context.socket(zmq.SUB) as socket:
        address = own_address()
        port = socket.bind_to_random_port(f"tcp://{address}")
        words = [tickscope, "load", "zmq", f"{address}:{port}", "--connect-within", "0"]
        load = subprocess.run(words, capture_output=True, text=True, check=False)
        # Either end may be the first to find that they do not fit.
        assert load.returncode == 1 and "cannot connect" in load.stderr


def test_the_targets_in_c_are_bound_as_libzmq_is(tmp_path):
    """libzmq's PUSH takes `targets/zmq-pull` for one of its own."""
    program = tmp_path / "zmq-pull"
    source = TREE / "targets/zmq-pull/zmq-pull.c"
    subprocess.run([TREE / "tests/compiled.py", "cc", "-std=gnu11", "-o", program, source], check=True)
    pull = subprocess.Popen(
        [program, own_address(), "0", "--senders", "1"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    listens = pull.stderr.readline()
    with zmq.Context() as context, context.socket(zmq.PUSH) as socket:
        socket.connect(f"tcp://{pull.args[1]}:{listens.split()[-1]}")
        for at in range(100):
            socket.send(at.to_bytes(8, "little") + bytes(300))
    printed, _ = pull.communicate(timeout=60)
    assert json.loads(printed) == {"messages": 100, "bytes": 30_800, "refused": 0}
