"""Sessions of real vendors' protocols: cost, changes of model, provider and login, retries."""

from __future__ import annotations

import pytest

from tests.cli.program import of_type, results, said, turns, until
from tests.cli.vendor import streamed
from tests.runtime.providers.wire import (
    call,
    call_block,
    chat_reply,
    messages_reply,
    refusal,
    text_block,
)

HAIKU = "claude-haiku-4-5"


@pytest.mark.parametrize("provider", ["openai", "anthropic"])
def test_a_turn_with_two_calls_at_once(program, vendor, provider):
    one, two = '{"command": "echo one"}', '{"command": "echo two"}'
    server = vendor(
        messages_reply(
            text_block(0, "Both."),
            call_block(1, "toolu_1", "bash", one),
            call_block(2, "toolu_2", "bash", two),
            stop="tool_use",
        )
        if provider == "anthropic"
        else chat_reply(
            [{"content": "Both."}, call(0, "c1", "bash", one), call(1, "c2", "bash", two)],
            "tool_calls",
        ),
        streamed(provider, "Done."),
    )
    done = program.run("-p", "do both", "--allow-all", *server.options(provider))
    assert (done.code, done.out) == (0, "Done.\n")
    journal = program.journal()
    assert sorted(results(journal)) == [("completed", "one\n"), ("completed", "two\n")]
    assert said(journal, "assistant") == ["Both.", "Done."]
    assert len(of_type(journal, "usage")) == 2
    assert len({entry["seq"] for entry in journal}) == len(journal)


def test_the_cost_so_far_is_restored_on_resume(program, vendor):
    """3.3: from the journal, whatever a later price is. A reply is 100 tokens in and 7 out."""
    server = vendor(streamed("openai", "One."), streamed("openai", "Two."))
    words = ["--json", *server.options("openai")]
    program.configure('[prices."served-model"]\ninput = 10000\noutput = 0\n')
    first = program.run("-p", "hello", *words).object
    assert (first["cost_usd"], first["total_cost_usd"]) == (1.0, 1.0)
    program.configure('[prices."served-model"]\ninput = 0\noutput = 1000000\n')
    second = program.run("-c", "-p", "hello again", *words).object
    assert (second["cost_usd"], second["total_cost_usd"]) == (7.0, 8.0)
    assert second["usage"] == {"input": 100, "output": 7, "cache_read": 0, "cache_write": 0}
    assert [entry["cost_usd"] for entry in of_type(program.journal(), "usage")] == [1.0, 7.0]


def test_an_unknown_price_is_no_price(program, vendor):
    server = vendor(streamed("openai", "Hello."))
    done = program.run("-p", "hello", "--json", *server.options("openai", "nobody-knows-it"))
    assert done.object["cost_usd"] is None
    assert done.object["total_cost_usd"] is None


def test_a_change_of_model_is_recorded_and_used_on_resume(program, vendor):
    """3.5: also the provider and its address; and a title outlives it."""
    server = vendor(*(streamed("openai", "Yes.") for _ in range(3)), streamed("anthropic", "Yes."))
    first, second = server.options("openai", "first"), server.options("openai", "second")
    assert program.run("-p", "one", "-n", "Mine", *first).code == 0
    assert program.run("-c", "-p", "two", *second).code == 0
    assert program.run("-c", "-p", "three").code == 0  # nothing said: as it was
    assert program.run("-c", "-p", "four", *server.options("anthropic", HAIKU)).code == 0
    assert [one.body["model"] for one in server.received] == ["first", "second", "second", HAIKU]
    assert [one.path for one in server.received] == ["/v1/chat/completions"] * 3 + ["/v1/messages"]
    changed = [entry.get("model") for entry in of_type(program.journal(), "meta")]
    assert [model for model in changed if model] == ["first", "second", HAIKU]
    assert "Mine" in program.run("ls").out
    assert len(server.received[-1].body["messages"]) == 7


def test_a_recorded_provider_that_cannot_be_asked_exits_4(program, vendor):
    server = vendor(streamed("openai", "Yes."))
    words = ["--provider", "openai", "--model", "served-model"]
    environment = {"OPENAI_API_KEY": "sk-1", "OPENAI_BASE_URL": f"{server.url}/v1"}
    assert program.run("-p", "one", *words, **environment).code == 0
    program.configure('provider = "rehearsal"\n')
    journal = program.sessions()[0] / "journal.jsonl"
    changed = journal.read_bytes().replace(server.url.encode(), b"http://elsewhere.invalid")
    journal.write_bytes(changed)
    done = program.run("-c", "-p", "two")
    assert done.code == 4
    assert "elsewhere.invalid" in done.err
    assert journal.read_bytes() == changed


def test_a_session_begun_before_login_is_saved_before_and_after_it(program, vendor):
    """Hooks belong to the session: 1.6, defect 4."""
    assert program.run("-p", "run: echo early", "--allow-all").code == 0
    early = (program.sessions()[0] / "journal.jsonl").read_bytes()
    server = vendor(streamed("openai", "Now", " with", " a key", pause=2))
    words = ["--provider", "openai", "--model", "served-model"]
    run = program.start(
        *("-c", "-p", "go on", *words, "--output-format", "stream-json"),
        OPENAI_API_KEY="sk-new",
        OPENAI_BASE_URL=f"{server.url}/v1",
    )
    run.end_input()
    server.asked()
    journal = program.journal()
    assert said(journal, "user") == ["run: echo early", "go on"]
    assert of_type(journal, "meta")[-1]["login"] == "OPENAI_API_KEY"
    server.go_on()
    run.lines_until(type="result")
    assert run.wait() == 0
    assert (program.sessions()[0] / "journal.jsonl").read_bytes().startswith(early)
    assert said(program.journal(), "assistant")[-1] == "Now with a key"


def test_a_key_that_is_refused_exits_4_and_keeps_the_prompt(program, vendor):
    server = vendor(refusal(401, "invalid_request_error", "Incorrect API key provided"))
    done = program.run("-p", "hello", *server.options("openai"))
    assert done.code == 4
    assert turns(program.journal()) == ["started", "failed"]
    assert said(program.journal(), "user") == ["hello"]


def test_a_retry_is_told_and_the_answer_comes(program, vendor):
    server = vendor(
        refusal(429, "rate_limit_error", "slow down", **{"retry-after": "0"}),
        streamed("openai", "Hello."),
    )
    done = program.run("-p", "hello", *server.options("openai"))
    assert (done.code, done.out) == (0, "Hello.\n")
    assert "Trying again in" in done.err
    assert len(of_type(program.journal(), "usage")) == 1


def test_an_answer_that_breaks_off_is_kept_and_the_rest_asked_for(program, vendor):
    broken = streamed("openai", "Half of ", "it", end="abort")
    broken.chunks = broken.chunks[:2]
    server = vendor(broken, streamed("openai", "and the rest."))
    done = program.run("-p", "hello", *server.options("openai"))
    assert done.code == 0, done.err
    assert said(program.journal(), "assistant") == ["Half of it", "and the rest."]
    assert "The received part is saved" in done.err


def test_a_prompt_that_arrives_while_a_summary_is_made_is_not_lost(program, vendor):
    """4.1, defect 10: and the model gets it together with the summary."""
    server = vendor(
        streamed("openai", "It is blue."),
        streamed("openai", "They like ", "blue.", pause=1),
        streamed("openai", "Blue, as you said."),
    )
    words = server.options("openai")
    assert program.run("-p", "my colour is blue " * 50, *words).code == 0
    streams = ["--input-format", "stream-json", "--output-format", "stream-json"]
    run = program.start("-c", "-p", "--compact", *streams, *words)
    server.asked(2)
    run.write("what is my colour?")
    until(lambda: of_type(program.journal(), "queued"))
    assert of_type(program.journal(), "checkpoint") == []
    server.go_on()
    run.end_input()
    result = run.lines_until(type="result")[-1]
    assert run.wait() == 0
    assert result["text"] == "Blue, as you said."
    assert len(of_type(program.journal(), "checkpoint")) == 1
    sent = str(server.received[-1].body)
    assert "They like blue." in sent
    assert "what is my colour?" in sent
    assert len(of_type(program.journal(), "usage")) == 3
