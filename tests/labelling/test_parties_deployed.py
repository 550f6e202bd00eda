"""Parties as separate processes, started by their owners' commands, and what they refuse."""

import csv
import json
import subprocess
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import TypeAlias

import numpy as np
import pytest
from deployed import HOST, IMAGES, NEEDS_OPENSSL, SECONDS, Caller, Parties, certify, framed
from killing import python
from numpy.typing import NDArray

from cemlib.cli import main
from cemlib.labelling.dealing import Public, read_dealt
from cemlib.labelling.errors import LabellingError, MessageError
from cemlib.labelling.queries import digests, enter
from cemlib.labelling.sharing import KeyShare
from cemlib.records.files import FileError

pytestmark = NEEDS_OPENSSL
VOTER = """
def vote_{0}(images):
    return ({1} * images.astype(int).sum((1, 2, 3)) + {0}) % 4
"""
MANY = np.random.default_rng(0).integers(0, 256, (1500, 1, 8, 8), dtype=np.uint8)
DAMAGED = b"\x93NUMPY\x01\x00\x10\x00{'descr': ('<f4'"  # a header of 16 bytes, cut off
TLS = ("--authority", "keys/authority.pem", "--public", "keys/public.json", "--seconds", "100")
Process: TypeAlias = "subprocess.Popen[str]"


class Group:
    """A folder with keys for a number of participants, and the processes that work in it."""

    def __init__(self, folder: Path, participants: int, *options: str) -> None:
        self.folder, self.participants = folder, participants
        self.processes: list[Process] = []
        folder.mkdir()
        voters = (VOTER.format(i, 2 * i + 1) for i in range(participants))
        (folder / "voter.py").write_text("".join(voters))
        deal = f"deal keys --participants {participants} --classes 4 --noise-std 0"
        ended(self.start(deal, *options))
        certify(folder / "keys", participants)

    def start(self, command: str, *options: str) -> Process:
        words = "-m", "cemlib", "pctc", *command.split(), *options
        started = python(*words, cwd=self.folder)
        self.processes.append(started)
        return started

    def aggregator(self) -> tuple[Process, int]:
        """The aggregator and its port."""
        own = "--certificate keys/aggregator.pem"
        process = self.start(f"aggregate --listen {HOST}:0 {own}", *TLS)
        said = process.stdout.readline()
        assert said.startswith(f"listening on {HOST}:")
        return process, int(said.rpartition(":")[2])

    def party(self, index: int, port: int, *options: str) -> Process:
        own = f"--certificate keys/participant-{index}.pem --share keys/share-{index}.json"
        voter = f"--classifier voter:vote_{index} --ledger ledger-{index}.txt --most 2000"
        return self.start(f"party --connect {HOST}:{port} {own} {voter}", *TLS, *options)

    def requester(self, port: int, images: NDArray[np.uint8], name: str) -> Process:
        np.save(self.folder / f"{name}.npy", images)
        own = f"--certificate keys/requester.pem --images {name}.npy --out {name}"
        return self.start(f"request --connect {HOST}:{port} {own}", *TLS)

    def close(self) -> None:
        for process in self.processes:
            process.kill()
            process.communicate()


def ended(process: Process) -> tuple[int, str]:
    """The exit code, and what was said last."""
    said, _ = process.communicate(timeout=120)
    return process.returncode, said.splitlines()[-1]


def plain_sums(images: NDArray[np.uint8], participants: int) -> NDArray[np.int64]:
    """The sums of the voters' votes, without any cryptography."""
    values = images.astype(int).sum((1, 2, 3))
    votes = [((2 * i + 1) * values + i) % 4 for i in range(participants)]
    return np.stack([(np.array(votes) == label).sum(0) for label in range(4)], axis=1)


def table(group: Group, name: str) -> tuple[list[str], NDArray[np.float64]]:
    """The labels and the counts that the requester has written."""
    header, *rows = csv.reader((group.folder / name).read_text().splitlines())
    assert header == ["image", "label", "count_0", "count_1", "count_2", "count_3"]
    assert [int(row[0]) for row in rows] == list(range(len(rows)))
    return [row[1] for row in rows], np.array([row[2:] for row in rows], float)


@pytest.fixture(scope="module")
def group(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Group]:
    """Three participants, who have voted on MANY."""
    weak = "--key-bits", "256", "--insecure-for-testing"
    with closing(Group(tmp_path_factory.mktemp("group") / "of", 3, *weak)) as made:
        whole_round(made, MANY, "labels.csv")
        yield made


def whole_round(group: Group, images: NDArray[np.uint8], name: str) -> None:
    aggregator, port = group.aggregator()
    parties = [group.party(index, port) for index in range(group.participants)]
    assert ended(group.requester(port, images, name)) == (0, name)
    assert ended(aggregator) == (0, f"sent the tallies of {len(images)} images")
    said = 0, f"voted on {len(images)} images"
    assert [ended(party) for party in parties] == [said] * group.participants


def test_tallies_of_processes_are_the_plain_sums(group: Group) -> None:
    """In messages that are larger than the buffers of a connection."""
    labels, counts = table(group, "labels.csv")
    assert np.array_equal(counts, plain_sums(MANY, 3))
    assert labels == [str(label) for label in plain_sums(MANY, 3).argmax(1)]
    assert (group.folder / "ledger-1.txt").read_text().split() == digests(MANY)


def test_a_second_vote_and_too_many_votes_are_refused(group: Group) -> None:
    """The aggregator may say that the first round failed: the participants know better."""
    aggregator, port = group.aggregator()
    images = np.stack([*MANY[:1], *(255 - MANY[:2])])
    fresh = "--ledger", "fresh.txt", "--most", "2"
    parties = [group.party(0, port, *fresh), group.party(1, port), group.party(2, port)]
    code, said = ended(group.requester(port, images, "again.csv"))
    assert code == 1
    assert "is gone, or ended the round" in said
    assert [ended(party) for party in parties] == [
        (1, "error: fresh.txt: holds 0 of at most 2 images; 3 more do not fit"),
        (1, "error: ledger-1.txt: 1 of 3 images are in it already, or were sent twice"),
        (1, "error: ledger-2.txt: 1 of 3 images are in it already, or were sent twice"),
    ]
    code, said = ended(aggregator)
    assert code == 1
    assert said.startswith("error: votes: nothing from participant-")
    assert not (group.folder / "again.csv").exists()
    assert (group.folder / "fresh.txt").read_text() == ""
    assert (group.folder / "ledger-1.txt").read_text().split() == digests(MANY)


def test_a_process_killed_in_a_round_voids_it(group: Group) -> None:
    aggregator, port = group.aggregator()
    parties = [group.party(index, port, "--ledger", f"killed-{index}") for index in (0, 2)]
    requester = group.requester(port, IMAGES, "killed.csv")
    with Caller(group.folder / "keys", "participant-1", port) as caller:
        own = caller.joins(1)
        parties[1].kill()
        caller.send(framed(own.vote()))
        code, said = ended(aggregator)
    assert code == 1
    assert ": nothing from participant-2;" in said
    assert ended(requester)[0] == 1
    assert ended(parties[0])[0] in (0, 1)  # it is not left waiting


def test_a_setting_that_the_aggregator_changed_is_refused_before_the_vote(
    running: Parties,
) -> None:
    public = read_dealt(running.keys / "public.json", Public)
    own = replace(public, setting=replace(public.setting, noise_std=3.0))
    running.asking()
    parts = running.honest(0, 1, 2, public=own)
    for index, part in enumerate(parts):
        with pytest.raises(MessageError, match=r"another public\.json, or sent other images"):
            part.result(SECONDS)
        assert (running.ledgers / f"{index}.txt").read_text() == ""


def test_a_share_without_a_key_for_tags_is_refused(keys: Path, tmp_path: Path) -> None:
    share = json.loads((keys / "share-0.json").read_text()) | {"mac_key": "g" * 64}
    (tmp_path / "share.json").write_text(json.dumps(share))
    with pytest.raises(FileError, match="mac_key must be 64 hexadecimal digits"):
        read_dealt(tmp_path / "share.json", KeyShare)


def test_a_share_under_anothers_name_is_refused(running: Parties) -> None:
    running.asking()
    running.honest(0, 1)
    with running.caller("participant-2") as caller:
        own = caller.joins(1)
        caller.send(framed(own.vote()))
        with pytest.raises(MessageError, match=r"vote of participant 2: .* or another's"):
            running.done.result(SECONDS)


def test_a_ledger_refuses_what_it_has_and_stays_as_it_was(tmp_path: Path) -> None:
    ledger, (first, second) = tmp_path / "ledger.txt", digests(IMAGES)
    enter(ledger, [first], most=1)
    for new in ([first], [second, second]):
        why = rf"ledger\.txt: 1 of {len(new)} images are in it already"
        with pytest.raises(LabellingError, match=why):
            enter(ledger, new)
    with pytest.raises(LabellingError, match="holds 1 of at most 1 images; 1 more do not fit"):
        enter(ledger, [second], most=1)
    assert ledger.read_text() == f"{first}\n"
    ledger.write_text(f"{first}\n{second[:9]}")
    with pytest.raises(FileError, match=r"ledger\.txt: not a ledger; if a crash cut off"):
        enter(ledger, [])
    with pytest.raises(FileError, match="cannot be written"):
        enter(tmp_path, [])


@pytest.mark.parametrize(
    ("option", "value", "code", "said"),
    [
        ("--share", "share.json", 2, "share.json: value: Field required"),
        ("--public", "missing.json", 2, "No such file"),
        ("--certificate", "share.json", 2, "share.json: cannot be read as a certificate in PEM"),
        ("--classifier", "missing:f", 2, "'missing:f' is not MODULE:FUNCTION: No module named"),
        ("--classifier", "./voter.py:vote", 2, "is not MODULE:FUNCTION: invalid format"),
        ("--classifier", "numpy", 2, "'numpy' is not MODULE:FUNCTION: what it names cannot"),
        ("--ledger", "share.json", 2, "share.json: not a ledger"),
        ("--connect", f"{HOST}:1", 1, f"the aggregator at {HOST}:1 is gone, or ended the round"),
    ],
)
def test_what_a_party_cannot_use_is_named(
    keys: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    option: str,
    value: str,
    code: int,
    said: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("share.json").write_text('{"index": 0, "of": 3, "fingerprint": "", "mac_key": 123}')
    files = {"certificate": "participant-0.pem", "authority": "authority.pem"}
    files |= {"public": "public.json", "share": "share-0.json"}
    options = {f"--{name}": str(keys / file) for name, file in files.items()}
    options |= {"--classifier": "numpy:sum", "--connect": f"{HOST}:1", "--most": "9"}
    options[option] = value
    assert main(["pctc", "party", *chain(*options.items())]) == code
    told = capsys.readouterr().err
    assert said in told
    assert "123" not in told


@pytest.mark.parametrize(
    ("images", "out", "code", "said"),
    [
        (IMAGES, "images.npy/labels.csv", 2, "labels.csv: cannot be written"),
        (IMAGES, "images.npy", 2, "images.npy: exists and is not overwritten"),
        (IMAGES, "labels.csv", 1, f"the aggregator at {HOST}:1 is gone, or ended the round"),
        (IMAGES[[0, 1, 0]], "labels.csv", 1, "images: 1 of them are copies of others"),
        pytest.param(
            DAMAGED, "labels.csv", 2, "images.npy: not an array in NumPy's format", id="damaged"
        ),
    ],
)
def test_a_table_that_cannot_be_made_costs_no_votes(
    keys: Path,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    images: NDArray[np.uint8] | bytes,
    out: str,
    code: int,
    said: str,
) -> None:
    if isinstance(images, bytes):
        (tmp_path / "images.npy").write_bytes(images)
    else:
        np.save(tmp_path / "images.npy", images)
    files = {"certificate": "requester.pem", "authority": "authority.pem", "public": "public.json"}
    options = {f"--{name}": str(keys / file) for name, file in files.items()}
    options |= {"--images": str(tmp_path / "images.npy"), "--out": str(tmp_path / out)}
    assert main(["pctc", "request", "--connect", f"{HOST}:1", *chain(*options.items())]) == code
    assert said in capsys.readouterr().err
    assert [file.name for file in tmp_path.iterdir()] == ["images.npy"]


@pytest.mark.slow
def test_fifteen_processes_at_2048_bits(tmp_path: Path) -> None:
    with closing(Group(tmp_path / "of", 15)) as group:
        whole_round(group, MANY[:9], "labels.csv")
        assert np.array_equal(table(group, "labels.csv")[1], plain_sums(MANY[:9], 15))
