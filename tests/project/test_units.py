"""One way to write a number, whoever shows it."""

from __future__ import annotations

from pathlib import Path

from whet import units

SOURCE = Path(units.__file__).parent


def test_durations():
    shown = [units.duration(ns) for ns in (0, 7, 64, 7.016, 999.6, 12_345, 999_600, 4_020_000, 61e9)]
    assert shown == ["0 ns", "7 ns", "64 ns", "7.02 ns", "1.00 µs", "12.3 µs", "1.00 ms", "4.02 ms", "61.0 s"]
    assert units.duration(None) == "-"


def test_sizes():
    shown = [units.size(n) for n in (0, 1023, 1536, 3 << 20, 5 << 30)]
    assert shown == ["0 B", "1023 B", "1.50 KiB", "3.00 MiB", "5.00 GiB"]


def test_ratios_and_factors():
    assert [units.ratio(x) for x in (0.0861, 0.41, 1.0, 12.44, 250)] == ["0.0861", "0.410", "1.00", "12.4", "250"]
    assert units.interval(0.9775, 1.051) == "0.978 to 1.05"
    assert [units.times(x) for x in (1.236, 12.44, 12_900)] == ["1.24", "12.4", "12,900"]


def test_shares():
    shown = [units.percent(share) for share in (None, 0, 1e-6, 0.0741, 0.36, 1, -0.02)]
    assert shown == ["-", "0.0 %", "<0.1 %", "7.4 %", "36.0 %", "100.0 %", "-2.0 %"]


def test_counts():
    assert [units.count(n, "round") for n in (0, 1, 1204)] == ["0 rounds", "1 round", "1,204 rounds"]
    assert units.count(2, "process", "processes") == "2 processes"


def test_there_is_one_of_them():
    assert [path.relative_to(SOURCE).as_posix() for path in SOURCE.rglob("units.py")] == ["units.py"]
