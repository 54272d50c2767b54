"""No export has a secret in it, wherever in a session it stood; nor, if so wished, a place."""

from __future__ import annotations

import base64
import json
import random
import re
import string
import zipfile

import pytest

import holdfast
from holdfast import File, Image, Message, Opaque, Text, Thinking, ToolCall, ToolResult
from holdfast.exchange.archive.read import take_archive
from holdfast.exchange.exporters import names
from holdfast.exchange.exporting.export import export_to
from holdfast.exchange.exporting.transcript import ExportOptions
from holdfast.exchange.redaction.redactor import Redactor
from holdfast.model.message import AnyPart
from tests.exchange.sources import take_all

_DRAWN = random.Random(7)


def key() -> str:
    """Return another token each time; put together here, so that no scanner takes it for one."""
    return "gh" + "p_" + "".join(_DRAWN.choices(string.ascii_letters + string.digits, k=36))


def encoded(text: str, encoding: str = "utf-8") -> str:
    """Return a text as files and images hold it."""
    return base64.b64encode(text.encode(encoding)).decode()


class Leaky:
    """A conversation with a secret in every place that takes text."""

    def __init__(self) -> None:
        self.secrets: dict[str, str] = {}

    def put(self, where: str) -> str:
        return self.secrets.setdefault(where, key())

    def messages(self) -> list[Message]:
        coloured = self.put("coloured")
        split, apart = self.put("split over texts"), self.put("split, with a call between")
        within = self.put("split within a result")
        reply = Message(
            role="assistant",
            content=[
                Text(text="k " + split[:20]),
                Text(text=split[20:]),
                Thinking(text=self.put("thinking"), signature="s"),
                Text(text=apart[:9]),
                ToolCall(id="a" + self.put("id"), name="t_" + self.put("name"), arguments={}),
                Text(text=apart[9:]),
                ToolCall(
                    id="c2", name="x", arguments={}, partial='{"a":"b\\n' + self.put("partial")
                ),
                Opaque(vendor=self.put("vendor"), data={"z": self.put("opaque")}),
            ],
            model="m " + self.put("model"),
            request=self.put("request"),
            stop=self.put("stop"),
        )
        held: list[AnyPart] = [
            Text(text="\x1b[01;31m\x1b[K" + coloured[:4] + "\x1b[m\x1b[K" + coloured[4:]),
            Text(text="\n" + within[:9]),
            Text(text=within[9:]),
            File(name="u", media_type="text/plain", data=encoded(self.put("utf-16"), "utf-16")),
            File(name="n", media_type="text/plain", data=encoded(self.put("le"), "utf-16-le")),
            File(name="b", media_type="text/plain", data=encoded(self.put("be"), "utf-16-be")),
            File(
                name="l",
                media_type="x " + self.put("media"),
                data=encoded("é" + self.put("l1"), "latin-1"),
            ),
            Image(media_type="image/svg+xml", data=encoded("<svg>" + self.put("svg"))),
            Image(media_type="image/png", url="data:text/plain;base64," + encoded(self.put("url"))),
        ]
        result = ToolResult(call_id="a" + self.secrets["id"], outcome="completed", content=held)
        return [holdfast.user("go"), reply, Message(role="tool", content=[result])]


def unpacked(data: bytes) -> bytes:
    """Return an export with everything in it that is encoded once more, decoded."""
    found = re.findall(rb"[A-Za-z0-9+/]{40,}={0,2}", data)
    return data + b"".join(
        base64.b64decode(each + b"=" * (-len(each) % 4)).replace(b"\0", b"")
        for each in found
        if len(each) % 4 != 1
    )


@pytest.mark.parametrize("name", sorted(names()))
def test_no_place_in_a_message_keeps_a_secret(name, tmp_path):
    leaky, redactor = Leaky(), Redactor()
    home = holdfast.open_store(tmp_path / "home")
    with home as store, store.session("k " + leaky.put("header"), title=leaky.put("title")) as own:
        own.append(leaky.messages())
        own.append(holdfast.user("x"), id="i " + leaky.put("id of an entry"))
        made = export_to(own, name, tmp_path / "made", ExportOptions(redactor=redactor))
    data = made.path.read_bytes()
    if name == "archive":
        with zipfile.ZipFile(made.path) as held:
            data = b"".join(held.read(each) for each in held.namelist())
    shown = unpacked(data)
    assert [where for where, secret in leaky.secrets.items() if secret[4:].encode() in shown] == []
    assert len(redactor.findings) >= len(leaky.secrets) - 2


def test_results_find_their_calls_though_ids_had_secrets(tmp_path):
    with holdfast.open_store(tmp_path / "home") as store, store.create() as session:
        session.append(Leaky().messages())
        made = export_to(session, "jsonl", tmp_path / "made", ExportOptions(redactor=Redactor()))
    lines = [json.loads(line) for line in made.path.read_text().splitlines()]
    parts = [part for line in lines for part in line.get("content", [])]
    (result,) = [part for part in parts if part["type"] == "tool_result"]
    call = next(part for part in parts if part["type"] == "tool_call")
    assert result["call_id"] == call["id"]
    assert re.fullmatch(r"a\[redacted: GitHub token \d+\]", call["id"])


def test_the_copy_of_a_fork_still_says_what_it_was_made_from(tmp_path):
    with holdfast.open_store(tmp_path / "home") as store, store.create() as session:
        session.append(holdfast.user(key()))
        with session.fork() as fork:
            made = export_to(fork, "archive", tmp_path / "made", ExportOptions(redactor=Redactor()))
    with zipfile.ZipFile(made.path) as held:
        header = json.loads(held.read("journal.jsonl").splitlines()[0])
    assert header["forked_from"]["session"] == session.id


def test_a_session_whose_key_had_a_secret_can_be_imported(tmp_path):
    """Its id is made from its key: the copy has another."""
    with holdfast.open_store(tmp_path / "home") as store, store.session("chat " + key()) as own:
        own.append(holdfast.user("x"))
        made = export_to(own, "archive", tmp_path / "made", ExportOptions(redactor=Redactor()))
    assert [found.where for found in made.findings] == ["header"]
    with holdfast.open_store(tmp_path / "other") as other:
        taken = take_archive(other, made.path)
        assert taken.session != own.id
        with other.session("chat [redacted: GitHub token 1]", mode="read") as copy:
            assert [message.text for message in copy.messages] == ["x"]


def test_events_do_not_say_where_a_session_was(tmp_path):
    line = {
        "sessionId": "s",
        "version": "2",
        "cwd": "/home/jo/secret-project",
        "timestamp": "2026-05-06T18:00:00Z",
    }
    said = {
        "type": "user",
        "uuid": "u",
        "parentUuid": None,
        "message": {"role": "user", "content": "hi"},
    }
    noted = {
        "type": "system",
        "uuid": "v",
        "parentUuid": "u",
        "content": "ran /home/jo/secret-project/build.sh, not /home/jo/secret-project-2/x",
        "deep": [{"working_directory": "/home/jo/secret-project/deep", "root": "a word"}],
    }
    source = tmp_path / "source" / "-home-jo" / "s.jsonl"
    source.parent.mkdir(parents=True)
    source.write_text("".join(json.dumps({**line, **each}) + "\n" for each in (said, noted)))
    with holdfast.open_store(tmp_path / "home") as store:
        (done,) = take_all(store, "claude-code", source)
        with store.open(str(done.session), mode="read") as session:
            options = ExportOptions(strip_workspace=True)
            made = export_to(session, "archive", tmp_path / "made", options)
    with zipfile.ZipFile(made.path) as held:
        journal = held.read("journal.jsonl").decode()
    assert "claude-code.system" in journal
    assert "ran [workspace]/build.sh, not /home/jo/secret-project-2/x" in journal
    assert '"root":"a word"' in journal
    assert not re.search(r"/home/jo/secret-project(?!-2)", journal)
    assert str(tmp_path) not in journal
