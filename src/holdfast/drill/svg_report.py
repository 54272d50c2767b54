"""What a drill found, for people: a line of time for each blow, and the verdict.

All lines of time have one scale, so that they can be compared. Where the screen knows no more than
ASCII, or is a dumb one, plain characters take the places of the others.
"""

from __future__ import annotations

import textwrap

from msgspec import Struct

from holdfast.drill.results import Drilled, DrillResult, Moments

_INDENT = "  "
_NARROWEST, _WIDEST = 39, 120
_COLOURS = {"survived": "32", "failed": "31", "left_out": "33", "blow": "31;1", "dim": "2"}
_WORDS = {"survived": "survived", "failed": "FAILED", "left_out": "skipped"}
_PICTURE = {"shown": "▓", "blow": "✗", "back": "░", "on": "▒", "done": "✓", "dot": "·"}
_PLAIN = {"shown": "#", "blow": "X", "back": ".", "on": "=", "done": "|", "dot": "-"}
_LEGEND = {
    "shown": "on the screen",
    "blow": "crash",
    "back": "recovery",
    "on": "continued",
    "done": "done",
}
_INTRODUCTION = "The real program with its offline rehearsal model, crashed in a temporary home:"
_STEPS_SECONDS = (0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0)


class Look(Struct, frozen=True):
    """What the screen can show: columns, characters beyond ASCII, colours."""

    width: int = 80
    is_unicode: bool = True
    has_colour: bool = False

    @property
    def columns(self) -> int:
        """How wide lines may be."""
        return max(_NARROWEST, min(self.width, _WIDEST) - 1)

    @property
    def marks(self) -> dict[str, str]:
        """The characters of the picture."""
        return _PICTURE if self.is_unicode else _PLAIN

    def coloured(self, text: str, colour: str) -> str:
        """Return text in a colour, if there are any."""
        return f"\033[{_COLOURS[colour]}m{text}\033[0m" if self.has_colour else text


def report(drilled: Drilled, look: Look) -> str:
    """Return the whole report."""
    room = look.columns - len(_INDENT)
    moments = [finding.moments for finding in drilled.findings if finding.moments is not None]
    longest = max((moment.done for moment in moments), default=0.0)
    blocks = [textwrap.fill(_INTRODUCTION, look.columns)]
    blocks += [_block(finding, look, room, longest) for finding in drilled.findings]
    if moments:
        blocks.append(_scale(look, room, longest))
    blocks.append(_verdict(drilled, look))
    return "\n\n".join(blocks)


def _block(finding: DrillResult, look: Look, room: int, longest: float) -> str:
    word = look.coloured(_WORDS[finding.state], finding.state)
    lines = [f"{finding.title:{look.columns - len(_WORDS[finding.state])}}{word}"]
    if finding.moments is not None:
        lines.append(_INDENT + _time_line(finding.moments, look, room, longest))
        lines += _wrapped(_facts(finding, look), look)
    for problem in finding.problems:
        lines += _wrapped(f"! {problem}", look)
    if finding.note is not None:
        lines += _wrapped(finding.note, look)
    return "\n".join(lines)


def _time_line(moments: Moments, look: Look, room: int, longest: float) -> str:
    """Draw one line of time; whatever happened has a place in it, however short it was."""
    cells = room - 1

    def column(seconds: float) -> int:
        return round(seconds / longest * cells) if longest else 0

    # At least one cell each, and room for those that follow.
    shown = min(max(1, column(moments.blow)), cells - 3)
    back = min(max(1, column(moments.back) - shown - 1), cells - 2 - shown)
    on = max(1, column(moments.done) - shown - 1 - back)
    marks = look.marks
    return "".join(
        (
            marks["shown"] * shown,
            look.coloured(marks["blow"], "blow"),
            look.coloured(marks["back"] * back, "dim"),
            marks["on"] * on,
            look.coloured(marks["done"], "survived"),
        )
    )


def _facts(finding: DrillResult, look: Look) -> str:
    kept, shown = finding.survived_characters, finding.shown_characters
    characters = f"{kept:,} of {shown:,} characters saved"
    if finding.run_twice:
        commands = f"{finding.run_twice} of {finding.commands} commands run twice"
    elif finding.commands == 1:
        commands = "1 command, once"
    else:
        commands = f"{finding.commands} commands, each once"
    facts = [characters, commands]
    if finding.recovery_seconds is not None:
        facts.append(f"back in {finding.recovery_seconds:.2f} s")
    return f" {look.marks['dot']} ".join(facts)


def _scale(look: Look, room: int, longest: float) -> str:
    """Return the seconds below the lines, and what their characters mean."""
    step = next((each for each in _STEPS_SECONDS if longest / each <= 5), longest)
    line = ""
    for number in range(int(longest / step) + 1):
        label = f"{number * step:g} s"
        place = round(number * step / longest * (room - 1))
        if place + len(label) <= room:
            line = f"{line:{place}}{label}"
    marks = (f"{look.marks[name]} {meaning}" for name, meaning in _LEGEND.items())
    return "\n".join([look.coloured(_INDENT + line, "dim"), *_wrapped("   ".join(marks), look)])


def _verdict(drilled: Drilled, look: Look) -> str:
    states = [finding.state for finding in drilled.findings]
    tried = [state for state in states if state != "left_out"]
    left_out, failed = len(states) - len(tried), states.count("failed")
    compared = sum(finding.shown_characters for finding in drilled.findings)
    if failed:
        said = [(f"{failed} of {len(tried)} failed.", "failed")]
    elif not tried:
        said = [("Nothing was tried.", "left_out")]
    else:
        said = [("Nothing was lost.", "survived"), (f"Scenarios: {len(tried)}.", "")]
        said.append((f"Characters compared: {compared:,}.", ""))
    if left_out and tried:
        said.append((f"Skipped: {left_out}.", "left_out"))
    said.append((f"Time: {drilled.seconds:.1f} s.", ""))
    text = _in_lines(said, look)
    return text + (f"\nThe temporary home was kept: {drilled.scratch}" if drilled.scratch else "")


def _in_lines(sentences: list[tuple[str, str]], look: Look) -> str:
    """Put sentences, each with its colour, into as few lines as they need."""
    text, used = "", 0
    for sentence, colour in sentences:
        if used:
            fits = used + 1 + len(sentence) <= look.columns
            text, used = (f"{text} ", used + 1) if fits else (f"{text}\n", 0)
        text += look.coloured(sentence, colour) if colour else sentence
        used += len(sentence)
    return text


def _wrapped(text: str, look: Look) -> list[str]:
    return textwrap.wrap(
        text,
        look.columns,
        initial_indent=_INDENT,
        subsequent_indent=_INDENT,
        break_on_hyphens=False,
    )
