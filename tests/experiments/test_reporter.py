"""The lines that a log gets during a long run."""

from types import SimpleNamespace

from experiments.tables import reporter


def test_a_log_tells_now_and_then_what_remains_at_the_speed_of_the_run(monkeypatch):
    """Part i ends after i^2 seconds: i parts since the first took i^2, so that the 99 - i others
    take i each. Lines are 30 seconds apart, later a tenth of the elapsed time.
    """
    now, lines = [0.0], []
    monkeypatch.setattr(reporter, "time", SimpleNamespace(monotonic=lambda: now[0]))
    speaker = reporter.Reporter(say=lines.append)
    speaker._console.get_time = lambda: now[0]
    with speaker.progress(200, "all") as advance:
        for i in range(91):
            now[0] = float(i**2)
            advance(f"part {i}", 2)
    assert [lines[0], *lines[-2:]] == [
        "part 6: 7% of all, elapsed 0:00:36, about 0:09:18 remaining",
        "part 84: 85% of all, elapsed 1:57:36, about 0:21:00 remaining",
        "part 89: 90% of all, elapsed 2:12:01, about 0:14:50 remaining",
    ]
