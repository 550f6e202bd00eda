"""Write dealt keys to files for parties on separate machines, and read them there.

`public.json` is for everybody, `share-<i>.json` for participant i alone.
"""

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TypeVar

from pydantic import TypeAdapter, ValidationError

from cemlib.labelling.paillier import PublicKey
from cemlib.labelling.protocol import deal
from cemlib.labelling.setting import Setting
from cemlib.records.files import FileError

_T = TypeVar("_T")


@dataclass(frozen=True)
class Public:
    """The public key and the setting, which all parties know before a round."""

    key: PublicKey
    setting: Setting


def write_keys(folder: Path, setting: Setting) -> list[Path]:
    """Deal keys into a new folder and return its files; raise FileError if it exists."""
    if folder.exists():
        raise FileError(f"{folder}: exists already; name a new folder for these keys")
    keys = deal(setting)
    folder.mkdir(0o700, parents=True)
    dealt = {"public": Public(keys.public, setting)} | {f"share-{s.index}": s for s in keys.shares}
    written = [folder / f"{name}.json" for name in dealt]
    for path, content in zip(written, dealt.values(), strict=True):
        path.touch(0o600, exist_ok=False)  # readable by this user alone from its first byte on
        path.write_text(json.dumps(asdict(content)))
    return written


def read_dealt(path: Path, kind: type[_T]) -> _T:
    """Read a `Public` or `KeyShare`; raise FileError, which shows no value, if one is wrong."""
    try:
        return TypeAdapter(kind).validate_json(path.read_bytes(), strict=True)
    except ValidationError as error:
        faults = error.errors(include_url=False, include_input=False, include_context=False)
        where = (f"{path}: {'.'.join(map(str, f['loc'])) or 'file'}: {f['msg']}" for f in faults)
        raise FileError("\n".join(where)) from None  # the cause would show the share
