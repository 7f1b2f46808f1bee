"""The fuzzer itself: it finds what was planted, says it in few frames, and keeps it as a file."""

import subprocess
import sys
from pathlib import Path

import fuzz_sanitized as sanitized
import pytest
from fuzz_minimise import minimised, smaller
from fuzz_play import batches
from fuzz_recorded import frames, recordings
from fuzz_round import Finding, Place, Tried
from fuzz_transcript import Drop, Hear, Say, read, text
from gateway_frames import AMQP_HEADER, begin_frame, frame_of, open_frame

from distributary.ingest.native import build_pump

#: One byte behind a block of memory is written when a flow is walked over.
PLANTED = """
#include <stdlib.h>
static void planted(int code) {
  char *volatile block = malloc(4);
  block[code == FLOW ? 4 : 3] = 1;
  free(block);
}
"""
FLOW = frame_of("flow", incoming_window=9, next_outgoing_id=0, outgoing_window=9)
JUDGED = "static int judge(const uint8_t *m, size_t end, size_t at, int code) {\n"


@pytest.fixture
def planted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Our C with a write out of bounds in it, compiled with sanitizers; Proton is as it is."""
    try:
        sanitized.runtime("libasan.so")
    except sanitized.NoSanitizer as error:
        pytest.skip(str(error))
    sources = tmp_path / "sources"
    sources.mkdir()
    for name in build_pump.SOURCES:
        said = (build_pump.HERE / name).read_text()
        if name == "walk.c":
            assert JUDGED in said
            said = said.replace(JUDGED, f"{PLANTED}{JUDGED}  planted(code);\n")
        (sources / name).write_text(said)
    monkeypatch.setattr(build_pump, "HERE", sources)
    folder = tmp_path / "built"
    sanitized.compiled(folder)
    return folder


def test_a_planted_overflow_is_found(planted: Path, tmp_path: Path) -> None:
    place = Place(tmp_path / "gateway", sanitized.environment(planted))
    hello = [Say(0, AMQP_HEADER), Say(0, open_frame("one")), Say(0, begin_frame()), Hear(0)]
    with Tried(place, witnessed=False) as gateway:
        gateway.converse(hello)
        with pytest.raises(Finding, match=r"AddressSanitizer: heap-buffer-overflow.*planted"):
            gateway.converse([*hello, Say(0, FLOW)])


def test_a_gateway_that_ends_is_a_finding(tmp_path: Path) -> None:
    with Tried(Place(tmp_path / "gateway"), witnessed=False) as gateway:
        assert gateway.process is not None
        gateway.process.kill()
        gateway.process.wait()
        with pytest.raises(Finding, match="ended with code -9"):
            gateway.judge()


def test_a_traceback_is_a_finding(tmp_path: Path) -> None:
    with Tried(Place(tmp_path / "gateway"), witnessed=False) as gateway:
        gateway.judge()
        with gateway.log_path.open("a") as log:
            log.write('{"event": "x", "exception": "Traceback (most recent call last): ..."}\n')
        with pytest.raises(Finding, match="Traceback"):
            gateway.judge()


def test_an_unanswered_witness_is_a_finding(tmp_path: Path) -> None:
    """A witness that stops answering is seen, though it runs."""
    with Tried(Place(tmp_path / "gateway")) as gateway:
        assert gateway.process is not None
        subprocess.run(["kill", "-STOP", str(gateway.process.pid)], check=True)
        assert gateway.witness is not None
        gateway.witness.wait(60)
        subprocess.run(["kill", "-CONT", str(gateway.process.pid)], check=True)
        with pytest.raises(Finding, match="the witness: failed"):
            gateway.judge()


def test_what_does_not_matter_is_left_out() -> None:
    """Of a hundred only the two that fail together stay, in their order."""
    assert minimised(range(100), lambda some: 13 in some and 77 in some) == [13, 77]


def test_bytes_are_left_out_too() -> None:
    """The byte that matters stays, in a frame that says its new size."""
    long = Say(0, (408).to_bytes(4, "big") + b"\x02\x00\x00\x00" + b"x" * 300 + b"!" + b"x" * 99)
    [act] = smaller([Say(1, b"a"), long], lambda acts: any(b"!" in act.data for act in acts))
    assert b"!" in act.data
    assert len(act.data) == int.from_bytes(act.data[:4], "big") < 40


def test_a_transcript_is_a_file_and_back(tmp_path: Path) -> None:
    acts = [Say(0, AMQP_HEADER), Hear(0), Say(3, frame_of("end")), Drop(3)]
    path = tmp_path / "one.txt"
    path.write_text(text(acts, "seed 7\nsecond line"))
    assert read(path) == acts
    path.write_text("0 > 00\n0 = 00\n")
    with pytest.raises(ValueError, match=r"one\.txt:2: '0 = 00' is none of"):
        read(path)


def test_what_one_connection_says_goes_in_one_write() -> None:
    acts = [Say(0, b"a"), Say(0, b"b"), Say(1, b"c"), Say(0, b"d"), Hear(0), Drop(1)]
    assert batches(acts) == [
        (0, b"ab", None),
        (1, b"c", None),
        (0, b"d", Hear(0)),
        (1, b"", Drop(1)),
    ]


def test_recordings_are_whole_conversations() -> None:
    for said in recordings():
        assert said[0].startswith(b"AMQP")
        assert frames(b"".join(said)) == list(said)
    assert len(recordings()) >= 3


def test_its_own_command_says_what_is_wrong_with_a_transcript(tmp_path: Path) -> None:
    """A replay of something that is well says so."""
    path = tmp_path / "well.txt"
    path.write_text(text([Say(0, AMQP_HEADER), Say(0, open_frame("one"))]))
    command = [sys.executable, "-m", "tests.fuzz", "--plain", "--replay", str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "all is well" in done.stdout
