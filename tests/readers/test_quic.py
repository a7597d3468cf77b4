"""QUIC as the fourth transport: what no other build has, so it is built, and tried, only here."""

import json
import os
import socket
import subprocess

from conftest import TREE

FEATURE = ("-p", "tickscope-prrt", "--features", "quic")


def cargo(words, target):
    environment = os.environ | {"CARGO_TARGET_DIR": str(target)}
    return subprocess.run(["cargo", *words], cwd=TREE, env=environment, check=True, capture_output=True, text=True)


def test_e2e_every_payload_over_quic_comes_and_has_its_trace(tickscope, tmp_path):
    target = TREE / "target/quic"
    tried = cargo(["test", "--locked", *FEATURE, "--test", "loopback", "e2e_the_same_payloads"], target)
    assert "1 passed" in tried.stdout
    cargo(["build", "--locked", *FEATURE, "--bin", "prrt"], target)
    with socket.socket(type=socket.SOCK_DGRAM) as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    text = (TREE / "experiments/prrt-rivals.toml").read_text()
    for known, other in (
        ("../target/release/prrt", str(target / "debug/prrt")),
        ("7400", port),
        ('kind = "auto"', 'kind = "loopback"'),
        ('"--rate", "1000"', '"--rate", "300"'),
        ('"--deadline-ms", "50"', '"--deadline-ms", "3000"'),
        ('at_most = "50ms"', 'at_most = "60s"'),
        ("seconds = 10", "seconds = 2"),
        ("repetitions = 5", "repetitions = 1"),
        ('values = ["udp", "prrt", "tcp", "quic"]', 'values = ["quic"]'),
        ('values = ["0", "0.01"]', 'values = ["0.05"]'),
    ):
        assert known in text, known
        text = text.replace(known, other)
    (tmp_path / "quic.toml").write_text(text)
    subprocess.run([tickscope, "run", tmp_path / "quic.toml", "--out", tmp_path / "sweep"], check=True)
    (run,) = (tmp_path / "sweep").glob("trial-*")
    shown = subprocess.run([tickscope, "show", run, "--json"], check=True, capture_output=True, text=True).stdout
    table = json.loads(shown)
    (whole,) = [row for row in table["stages"] if row["stage"] == "end-to-end"]
    assert whole["count"] == 600 and table["findings"] == []
    said = [event["text"] for event in table["events"] if '"role":"receiver"' in (event["text"] or "")]
    counts = json.loads(said[0].split(": ", 1)[1])
    assert (counts["delivered"], counts["corrupt"], counts["untaken"]) == (600, 0, 0)
