"""The journal: whole lines only, whatever happened to the last one; one holder of a lock."""

from __future__ import annotations

import json
import math
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from heterofl_ray.tracking.journal import (
    DRIVER,
    Journal,
    Sent,
    held,
    is_held,
    journal_path,
    last,
    read,
)


def test_events_come_back_with_the_places_of_their_ends(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    journal.append({"kind": "a"})
    journal.append({"kind": "bb", "value": 0.1})
    entries = read(journal.path)
    assert [entry.event for entry in entries] == [{"kind": "a"}, {"kind": "bb", "value": 0.1}]
    assert [entry.end for entry in entries] == [
        len('{"kind":"a"}\n'),
        len('{"kind":"a"}\n{"kind":"bb","value":0.1}\n'),
    ]
    assert read(journal.path, entries[0].end) == entries[1:]
    assert read(journal.path, entries[1].end) == []
    assert last(journal.path) == {"kind": "bb", "value": 0.1}


def test_numbers_survive_to_the_last_bit(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    values = [0.1 + 0.2, 1 / 3, math.inf, 5e-324, math.nan]
    journal.append({"values": values})
    found = read(journal.path)[0].event["values"]
    assert found[:4] == values[:4]
    assert math.isnan(found[4])


def test_a_line_without_its_end_is_not_seen_and_is_cut_off_on_reopening(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    journal.append({"kind": "a"})
    journal.close()
    whole = journal.path.read_bytes()
    for torn in (b"{", b'{"kind":"b"', b'{"kind":"b"}'):  # the last lacks only its line's end
        journal.path.write_bytes(whole + torn)
        assert [entry.event for entry in read(journal.path)] == [{"kind": "a"}]
        assert last(journal.path) == {"kind": "a"}
        again = Journal(tmp_path)
        again.append({"kind": "c"})
        again.close()
        assert [entry.event for entry in read(journal.path)] == [{"kind": "a"}, {"kind": "c"}]


def test_a_damaged_line_keeps_its_place(tmp_path: Path) -> None:
    path = journal_path(tmp_path)
    path.parent.mkdir()
    path.write_bytes(b'{"kind":"a"}\n\0\0\0\n[1]\n{"kind":"b"}\n')
    entries = read(path)
    assert [entry.event for entry in entries] == [{"kind": "a"}, {}, {}, {"kind": "b"}]
    assert [entry.end for entry in entries] == [13, 17, 21, 34]


def test_the_last_event_of_a_long_journal(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    for number in range(3000):
        journal.append({"step": number, "padding": "x" * 100})
    assert last(journal.path)["step"] == 2999
    assert journal.path.stat().st_size > 1 << 17


def test_no_journal_has_no_events(tmp_path: Path) -> None:
    assert read(journal_path(tmp_path)) == []


def test_what_was_sent_is_kept_and_a_damaged_note_means_nothing_was(tmp_path: Path) -> None:
    Journal(tmp_path).close()
    assert Sent.read(tmp_path) == Sent()
    note = Sent(offset=7, run_id="r", place="p", refused=1, problem="away", failures=2)
    note.write(tmp_path)
    assert Sent.read(tmp_path) == note
    path = tmp_path / "tracking" / "sent.json"
    assert json.loads(path.read_text())["offset"] == 7
    for damaged in ("", "{", '{"unknown": 1}', "[]"):
        path.write_text(damaged)
        assert Sent.read(tmp_path) == Sent()


def test_a_lock_has_one_holder_and_dies_with_it(tmp_path: Path) -> None:
    script = (
        "import sys, time; from pathlib import Path\n"
        "from heterofl_ray.tracking.journal import DRIVER, held\n"
        "with held(Path(sys.argv[1]), DRIVER) as mine:\n"
        "    print(mine, flush=True); time.sleep(60)\n"
    )
    other = subprocess.Popen(
        [sys.executable, "-c", script, str(tmp_path)], stdout=subprocess.PIPE, text=True
    )
    assert other.stdout is not None
    assert other.stdout.readline() == "True\n"
    assert is_held(tmp_path, DRIVER)
    with held(tmp_path, DRIVER) as mine:
        assert not mine
    other.send_signal(signal.SIGKILL)
    other.wait()
    with held(tmp_path, DRIVER) as mine:
        assert mine
        assert is_held(tmp_path, DRIVER)
    assert not is_held(tmp_path, DRIVER)


def test_several_threads_write_whole_lines(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda n: journal.append({"n": n, "x": "y" * 500}), range(400)))
    found = [entry.event for entry in read(journal.path)]
    assert sorted(event["n"] for event in found) == list(range(400))
    assert all(event["x"] == "y" * 500 for event in found)
