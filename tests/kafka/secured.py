"""A listener with TLS and a password, for a broker of the tests."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path

USER, PASSWORD = "orders", "s3cr3t \"PW\\'"
_PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
_SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"


@dataclass(frozen=True)
class Secured:
    """Credentials of a listener.

    A client creates the SCRAM credentials once the broker runs. PLAIN uses ``user`` and ``password`` directly.
    """

    user: str
    password: str

    def settings(self, folder: Path, port: int, controller: int, secured: int) -> dict[str, str]:
        """Return the broker's settings, and write its certificate into ``folder`` as ``ca.pem``."""
        store = _certificate(folder)
        here = "127.0.0.1"
        quoted = self.password.replace("\\", "\\\\").replace('"', '\\"')  # quoted for JAAS
        login = f'{_PLAIN} required user_{self.user}="{quoted}";'.replace("\\", "\\\\")  # escaped for a properties file
        named = f"PLAINTEXT://{here}:{port},SECURED://{here}:{secured}"
        return {
            "listeners": f"{named},CONTROLLER://{here}:{controller}",
            "advertised.listeners": named,
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SECURED:SASL_SSL",
            "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-512",
            "listener.name.secured.plain.sasl.jaas.config": login,
            "listener.name.secured.scram-sha-512.sasl.jaas.config": f"{_SCRAM} required;",
            "ssl.keystore.type": "PKCS12",
            "ssl.keystore.location": str(store),
            "ssl.keystore.password": "changeit",
        }


def _certificate(folder: Path) -> Path:
    store = folder / "broker.p12"
    named = ["-alias", "broker", "-keystore", str(store), "-storetype", "PKCS12", "-storepass", "changeit"]
    of_key = ["-keyalg", "RSA", "-dname", "CN=127.0.0.1", "-ext", "SAN=ip:127.0.0.1", "-validity", "2"]
    _keytool("-genkeypair", *named, *of_key)
    _keytool("-exportcert", "-rfc", *named, "-file", str(folder / "ca.pem"))
    return store


def _keytool(*words: str) -> None:
    subprocess.run(["keytool", *words], check=True, capture_output=True, stdin=subprocess.DEVNULL, timeout=60)
