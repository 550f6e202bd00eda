"""Deal keys into files, for parties on machines of their own, and read them there.

`public.json` is for everybody: the public key and the setting of the rounds. `share-<i>.json` is
for participant i alone. Certificates are P-256.
"""

import datetime
import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from pydantic import TypeAdapter, ValidationError

from cemlib.labelling.channels import AGGREGATOR
from cemlib.labelling.errors import REQUESTER, LabellingError, party_name
from cemlib.labelling.paillier import PublicKey
from cemlib.labelling.protocol import deal
from cemlib.labelling.setting import Setting
from cemlib.records.files import FileError

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric import ec

AUTHORITY = "authority"

_T = TypeVar("_T")


@dataclass(frozen=True)
class Public:
    """Hold what all parties know before a round."""

    key: PublicKey
    setting: Setting


def write_keys(folder: Path, setting: Setting) -> list[Path]:
    """Deal keys into a new folder; return the files, or raise FileExistsError if it is there."""
    folder.mkdir(0o700, parents=True)
    keys = deal(setting)
    dealt = {"public": Public(keys.public, setting)} | {f"share-{s.index}": s for s in keys.shares}
    return [
        _write(folder / f"{name}.json", json.dumps(asdict(content)).encode())
        for name, content in dealt.items()
    ]


def read_dealt(path: Path, kind: type[_T]) -> _T:
    """Return the `Public` or `KeyShare` in a file.

    Raises:
        FileError: a value is missing or wrong; the message does not show what was found.
    """
    try:
        return TypeAdapter(kind).validate_json(path.read_bytes(), strict=True)
    except ValidationError as error:
        faults = error.errors(include_url=False, include_input=False, include_context=False)
        where = (f"{path}: {'.'.join(map(str, f['loc'])) or 'file'}: {f['msg']}" for f in faults)
        raise FileError("\n".join(where)) from None  # which would show a share


def make_certificates(folder: Path, participants: int) -> list[Path]:
    """Write an authority's certificate and every party's key and certificate; return the files.

    They are for trying out on one machine: the authority's private key is forgotten, and all are
    valid for a day.

    Raises:
        LabellingError: the package cryptography is not installed.
    """
    try:
        from cryptography.hazmat.primitives import serialization as form
        from cryptography.hazmat.primitives.asymmetric import ec
    except ImportError as error:
        raise LabellingError(
            "certificates need a package: pip install 'cemlib[labelling]'"
        ) from error
    key = ec.generate_private_key(ec.SECP256R1())
    files = [_write(folder / f"{AUTHORITY}.pem", _certificate(AUTHORITY, key, key))]
    encoding = form.Encoding.PEM, form.PrivateFormat.PKCS8, form.NoEncryption()
    for name in (AGGREGATOR, *map(party_name, range(REQUESTER, participants))):
        own = ec.generate_private_key(ec.SECP256R1())
        secret = own.private_bytes(*encoding)
        files.append(_write(folder / f"{name}.pem", secret + _certificate(name, own, key)))
    return files


def _certificate(
    name: str, key: "ec.EllipticCurvePrivateKey", authority: "ec.EllipticCurvePrivateKey"
) -> bytes:
    """Return a party's certificate for its key, signed by the authority's, as PEM."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization

    now = datetime.datetime.now(datetime.UTC)
    builder = (
        x509.CertificateBuilder()
        .subject_name(x509.Name.from_rfc4514_string(f"CN={name}"))
        .issuer_name(x509.Name.from_rfc4514_string(f"CN={AUTHORITY}"))
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(minutes=5))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.BasicConstraints(ca=name == AUTHORITY, path_length=None), critical=True)
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
    )
    signed = builder.sign(authority, hashes.SHA256())
    return signed.public_bytes(serialization.Encoding.PEM)


def _write(path: Path, data: bytes) -> Path:
    """Write a new file that only this user can read, from its first byte on; return its path."""
    path.touch(0o600, exist_ok=False)
    path.write_bytes(data)
    return path
