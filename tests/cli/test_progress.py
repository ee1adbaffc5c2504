from io import StringIO
from types import SimpleNamespace

import pytest
from rich.console import Console

from appl.cli import _progress
from appl.cli._progress import Bars


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """A clock that the test moves."""
    now = SimpleNamespace(s=1000.0)
    fake = SimpleNamespace(monotonic=lambda: now.s, strftime=lambda _: "12:00:00")
    monkeypatch.setattr(_progress, "time", fake)
    return now


def lines(text: StringIO) -> list[str]:
    return text.getvalue().splitlines()


def test_a_log_gets_a_line_a_minute_for_every_task_that_went_on(clock: SimpleNamespace) -> None:
    text = StringIO()
    with Bars(Console(file=text, width=80), transient=True) as bars:
        first, second = bars.add_task("TIM", total=2000), bars.add_task("APPL", total=20)
        bars.add_task("ProtoNet", total=600, completed=600)  # by an earlier run
        bars.update(first, completed=1000)
        bars.update(second, advance=3)
        assert lines(text) == []
        clock.s += 60
        bars.update(second, advance=1, description="APPL 62.9 ± 0.8")
        found = lines(text)
        assert found[0].startswith("12:00:00 TIM: 1,000 of 2,000")
        assert found[1].startswith("12:00:00 APPL 62.9 ± 0.8: 4 of 20")
        assert len(found) == 2  # nothing has happened to ProtoNet now
        clock.s += 59
        bars.update(second, advance=1)
        assert len(lines(text)) == 2
        clock.s += 1
        bars.update(second, advance=1)
        assert len(lines(text)) == 3  # TIM stands where it stood
        assert "6 of 20" in lines(text)[2]


def test_the_time_left_is_right_where_results_are_rare_and_come_together(
    clock: SimpleNamespace,
) -> None:
    text = StringIO()
    with Bars(Console(file=text, width=80), transient=True) as bars:
        task = bars.add_task("Fine-tune", total=100)
        for _ in range(10):
            clock.s += 118  # two workers, each two minutes on an episode
            bars.update(task, advance=1)
            clock.s += 2
            bars.update(task, advance=1)
        last = lines(text)[-1]
    assert last.startswith("12:00:00 Fine-tune: 19 of 100, ")
    hours, minutes, _ = last.split(", ")[1].split()[0].split(":")
    assert 75 <= 60 * int(hours) + int(minutes) <= 88  # 81 episodes, a minute each


def test_a_terminal_has_bars_and_no_log(clock: SimpleNamespace) -> None:
    text = StringIO()
    with Bars(Console(file=text, force_terminal=True, width=80), transient=True) as bars:
        task = bars.add_task("TIM", total=5)
        clock.s += 600
        bars.update(task, completed=2)
    assert "12:00:00" not in text.getvalue()
