"""The client of `$management` takes the answer to its own request, whatever came late before."""

import signal
from dataclasses import replace

import pytest
from gateway_process import Gateway as Process

from distributary.jobs.client.management_client import Client, Gateway, Unanswered
from distributary.pipeline.management.management_messages import Entity, Verb


def test_a_late_answer_is_not_taken_for_the_next_one(gateway: Process) -> None:
    """The gateway is stopped for longer than the client waits, then goes on and answers both."""
    at = replace(Gateway.at(f"127.0.0.1:{gateway.port}"), seconds=20.0)
    with Client(at) as patient:
        log = patient.ask(Verb.READ, Entity.NODE, "self")["log_name"]
        hasty = Client(replace(at, seconds=0.3))
        assert gateway.process is not None
        gateway.process.send_signal(signal.SIGSTOP)
        with pytest.raises(Unanswered, match="no answer within"):
            hasty.ask(Verb.QUERY, Entity.SUBSCRIPTION)
        gateway.process.send_signal(signal.SIGCONT)
        patient.ask(Verb.READ, Entity.NODE, "self")  # it goes on
        for _ in range(3):
            assert hasty.ask(Verb.READ, Entity.NODE, "self")["log_name"] == log
        hasty.close()
