"""The commands of labelling between parties on machines of their own (`cemlib.labelling.roles`)."""

import argparse
import pkgutil
import socket
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cemlib.cli.options import Command, Option, positive
from cemlib.records.files import FileError, atomic

if TYPE_CHECKING:
    from cemlib.labelling.roles import Seat

ABOUT = "deal keys, and label images by votes between parties on machines of their own"


def address(text: str) -> tuple[str, int]:
    """Read HOST:PORT, as the type of an option."""
    host, _, port = text.rpartition(":")
    if not host or not port.isdecimal() or int(port) >= 1 << 16:
        raise argparse.ArgumentTypeError(f"{text!r} is not HOST:PORT")
    return host.strip("[]"), int(port)


def deal(options: argparse.Namespace) -> Iterator[Path | str]:
    """Deal the keys of a group of participants into a new folder.

    Give `public.json` to all parties, and `share-<i>.json` to participant i alone: send it over a
    channel that nobody else can read, then delete it here.
    """
    from cemlib.labelling.dealing import write_keys
    from cemlib.labelling.setting import Setting

    fields = Setting.__dataclass_fields__.keys() & vars(options).keys()
    yield from write_keys(options.folder, Setting(**{n: getattr(options, n) for n in fields}))


def aggregate(options: argparse.Namespace) -> Iterator[Path | str]:
    """Carry out one round: add the votes of all participants, and send the requester the tallies.

    It waits until all are connected.
    """
    import asyncio

    from cemlib.labelling.roles import aggregate

    seat = _seat(options, server=True)
    family = socket.AF_INET6 if ":" in seat.address[0] else socket.AF_INET
    with socket.create_server(seat.address, family=family) as listener:
        yield "listening on {}:{}".format(*listener.getsockname())
        yield f"sent the tallies of {asyncio.run(aggregate(seat, listener))} images"


def party(options: argparse.Namespace) -> Iterator[Path | str]:
    """Take part in one round: vote on the images that come, and decrypt a part of their tallies.

    A round whose public.json differs from this party's own is refused. So are images in the ledger,
    the list of all images whose tallies this party has helped to decrypt.
    """
    import asyncio

    from cemlib.labelling.dealing import read_dealt
    from cemlib.labelling.roles import take_part
    from cemlib.labelling.sharing import KeyShare

    own = read_dealt(options.share, KeyShare), _function(options.classifier)
    seat, memory = _seat(options), (options.ledger, options.most)
    if not options.ledger.exists():
        yield f"{options.ledger.absolute()}: a new ledger, without any image"
    yield f"voted on {asyncio.run(take_part(seat, *own, *memory))} images"


def request(options: argparse.Namespace) -> Iterator[Path | str]:
    """Have images labelled by the votes of one round.

    The table has a row for each image, with its label and the noisy counts. The label is the class
    with the largest count, and empty if no count is positive.
    """
    import asyncio
    from tokenize import TokenError

    import numpy as np
    import pandas as pd

    from cemlib.labelling.roles import request

    try:
        with options.images.open("rb") as file:
            images = np.lib.format.read_array(file, allow_pickle=False)
    except (ValueError, TokenError, MemoryError) as error:  # as numpy fails on a damaged header
        raise FileError(f"{options.images}: not an array in NumPy's format: {error}") from error
    if options.out.exists():
        raise FileError(f"{options.out}: exists and is not overwritten; name another file")
    seat = _seat(options)
    with atomic(options.out) as temporary:
        temporary.touch()  # a table that cannot be written must not cost any votes
        counts = asyncio.run(request(seat, images))
        table = pd.DataFrame(counts).add_prefix("count_")
        table.insert(0, "label", np.where(counts.max(1) > 0, counts.argmax(1).astype(str), ""))
        temporary.write_text(table.to_csv(index_label="image"))
    yield options.out


def _seat(options: argparse.Namespace, *, server: bool = False) -> "Seat":
    from cemlib.labelling.channels import secured
    from cemlib.labelling.dealing import Public, read_dealt
    from cemlib.labelling.roles import Seat

    tls = secured(options.certificate, options.authority, server=server)
    return Seat(read_dealt(options.public, Public), tls, options.address, options.seconds)


def _function(text: str) -> Any:
    """Return the function MODULE:FUNCTION; raise ConfigError if there is none."""
    from cemlib.config.errors import ConfigError

    sys.path.insert(0, str(Path.cwd()))
    try:
        found = pkgutil.resolve_name(text)
        if not callable(found):
            raise ValueError("what it names cannot be called")
    except (ImportError, AttributeError, ValueError) as error:
        raise ConfigError(f"--classifier: {text!r} is not MODULE:FUNCTION: {error}") from error
    return found


def _file(flag: str, about: str, default: str | None = None) -> Option:
    """Return an option for a file, which must be given unless it has a default."""
    about += "" if default is None else f"; {DEFAULT}"
    needed = default is None
    return Option(flag, type=Path, required=needed, default=default, metavar="FILE", help=about)


def _at(flag: str, about: str) -> Option:
    return Option(
        flag, dest="address", type=address, required=True, metavar="HOST:PORT", help=about
    )


DEFAULT = "default: %(default)s"
CONNECT = _at("--connect", "address of the aggregator")
OWN = (
    _file("--certificate", "private key and certificate of this party, in PEM"),
    _file("--authority", "certificates of the trusted authorities, in PEM", "authority.pem"),
    _file("--public", "public parameters, the same for all parties", "public.json"),
    Option("--seconds", type=positive, default=600, metavar="N", help=f"time limit; {DEFAULT}"),
)
NOISE = "standard deviation of the noise on a count, of all participants together; 0: no privacy"
KEY_BITS = f"length of the Paillier modulus; {DEFAULT}"
PACKING = f"one counter in a ciphertext, or as many as fit, across images; {DEFAULT}"
BLINDING = f"how ciphertexts are blinded; short is faster; {DEFAULT}"
COMMANDS = {
    "pctc deal": Command(
        deal,
        [
            Option("folder", type=Path, metavar="FOLDER", help="a new folder"),
            Option("--participants", type=int, required=True, metavar="N", help="parties who vote"),
            Option("--classes", type=int, required=True, metavar="K", help="classes of the images"),
            Option("--noise-std", type=float, required=True, metavar="SIGMA", help=NOISE),
            Option("--key-bits", type=int, default=2048, metavar="BITS", help=KEY_BITS),
            Option("--packing", choices=("none", "images"), default="images", help=PACKING),
            Option("--blinding", choices=("full", "short"), default="short", help=BLINDING),
            Option("--insecure-for-testing", action="store_true", help="allow shorter keys"),
        ],
        ["cemlib pctc deal keys --participants 3 --classes 10 --noise-std 4"],
    ),
    "pctc aggregate": Command(
        aggregate,
        [_at("--listen", "address to listen on; port 0: any free port, which is printed"), *OWN],
        ["cemlib pctc aggregate --listen 0.0.0.0:4711 --certificate aggregator.pem"],
    ),
    "pctc party": Command(
        party,
        [
            CONNECT,
            *OWN,
            _file("--share", "share of the key of this party"),
            Option(
                "--classifier",
                required=True,
                metavar="MODULE:FUNCTION",
                help="maps a NumPy array of images, uint8 (images, channels, height, width), to"
                " class indices (images,)",
            ),
            _file("--ledger", "record of all images whose tallies were decrypted", "ledger.txt"),
            Option(
                "--most",
                type=positive,
                required=True,
                metavar="N",
                help="largest number of images in the ledger; to be used in the privacy accounting",
            ),
        ],
        [
            "cemlib pctc party --connect aggregator.example:4711 --certificate participant-0.pem"
            " --share share-0.json --classifier voter:classify --most 200"
        ],
    ),
    "pctc request": Command(
        request,
        [
            CONNECT,
            *OWN,
            _file("--images", "array uint8 (images, channels, height, width), NumPy's format"),
            _file("--out", "the table to write (CSV)"),
        ],
        [
            "cemlib pctc request --connect aggregator.example:4711 --certificate requester.pem"
            " --images images.npy --out labels.csv"
        ],
    ),
}
