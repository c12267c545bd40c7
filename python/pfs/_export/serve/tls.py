"""Makes the certificate of a server. Clients of MariaDB 11.4 and later ask for TLS, even at a unix socket."""

from __future__ import annotations

import os
import ssl
from datetime import UTC, datetime, timedelta

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

__all__ = ["context"]

_LIFE = timedelta(days=3650)


def context() -> ssl.SSLContext:
    """Returns a context with a new key, which no file holds, and a certificate that it has signed itself."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "pfs serve")])
    begin = datetime.now(UTC) - timedelta(days=1)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(begin)
        .not_valid_after(begin + _LIFE)
        .sign(key, hashes.SHA256())
    )
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    pem = serialization.Encoding.PEM
    with os.fdopen(os.memfd_create("certificate"), "wb") as file:
        file.write(key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()))
        file.write(certificate.public_bytes(pem))
        file.flush()
        made.load_cert_chain(f"/proc/self/fd/{file.fileno()}")
    return made
