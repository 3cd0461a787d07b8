"""Redaction in texts of other programs: secrets are hidden, and the rest stays readable."""

from __future__ import annotations

import base64
import time
from typing import Any
from urllib.parse import quote, quote_plus

import pytest

from airflow_provider_ckpt.connections.connection import Connection
from airflow_provider_ckpt.connections.environment import read_connection
from airflow_provider_ckpt.sparkfiles.seen_files import shown_path
from airflow_provider_ckpt.storage.errors import InvalidStorageUriError
from airflow_provider_ckpt.storage.location import Location
from airflow_provider_ckpt.storage.opening import canonical_uri, open_storage
from airflow_provider_ckpt.storage.redaction import (
    HIDDEN,
    conf_secrets,
    field_secrets,
    hiding_given,
    note_given,
    redact,
    redact_given,
    secret_names,
)

PASSWORD = "s3 cr/t+PÄ=;&"
PEM = "-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBg\n-----END PRIVATE KEY-----"
JAAS = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="me" password="jaasPW";'


def lower(text: str) -> str:
    return "".join(f"%{part[:2].lower()}{part[2:]}" if number else part for number, part in enumerate(text.split("%")))


FORMS = {
    "plain": PASSWORD,
    "in a URI": quote(PASSWORD, safe=""),
    "in a URI, lower case": lower(quote(PASSWORD, safe="")),
    "with slashes": quote(PASSWORD),
    "in a form": quote_plus(PASSWORD),
    "in a form, lower case": lower(quote_plus(PASSWORD)),
    "in a header": base64.b64encode(f"me:{PASSWORD}".encode()).decode(),
    "in a URL-safe header": base64.urlsafe_b64encode(f"me:{PASSWORD}".encode()).decode().rstrip("="),
}


@pytest.mark.parametrize("form", FORMS)
def test_a_password_is_hidden_in_every_printed_form(form: str) -> None:
    connection = Connection("db", "postgres", "h", 5432, "me", PASSWORD)
    location = Location("s3://bucket/x", {"username": "me", "password": PASSWORD})
    for place in (connection, location):
        assert place.redact(f"401 for <{FORMS[form]}>").rstrip("=>") == f"401 for <{HIDDEN}"


@pytest.mark.parametrize(
    ("extra", "secrets"),
    [
        ({"group.id": "orders", "client.id": "daily", "bootstrap.servers": "b:9092"}, set()),
        ({"sasl.password": "PW-1", "sasl.mechanism": "SCRAM-SHA-512", "security.protocol": "SASL_SSL"}, {"PW-1"}),
        ({"sasl.jaas.config": JAAS}, {JAAS, "jaasPW"}),
        ({"ssl.key.pem": PEM, "ssl.certificate.pem": "-----BEGIN CERTIFICATE-----\nx"}, {PEM}),
        ({"ssl.keystore.location": "/etc/kafka/orders.jks", "ssl.keystore.password": "PW-2"}, {"PW-2"}),
        ({"sasl.oauthbearer.token.endpoint.url": "https://idp/token", "sasl.oauthbearer.method": "oidc"}, set()),
        ({"sasl.oauthbearer.client.secret": "PW-3"}, {"PW-3"}),
        ({"endpoint": "https://me:PW-4@orders:9000/x"}, {"me", "PW-4"}),
        ({"ssl": {"ca": "/ca.pem", "password": "PW-5"}}, {"PW-5"}),
        ({"ssl": '{"ca": "/ca.pem", "password": "PW-5"}'}, {"PW-5"}),
        ({"proxies": [{"password": "PW-6"}]}, {"PW-6"}),
        ({"token": "anon", "auth_type": "basic", "project": "orders"}, set()),
        ({"headers": "Bearer PW-7-of-a-token"}, {"PW-7-of-a-token"}),
        (
            {"x": "eyJhbGciOi.eyJzdWIi.abc-_1", "y": "AKIAIOSFODNN7EXAMPLE"},
            {"eyJhbGciOi.eyJzdWIi.abc-_1", "AKIAIOSFODNN7EXAMPLE"},
        ),
        ({"x": "wJalrXUtnFEMIK7MDENGbPxRfiCYEXAMPLEKEY"}, {"wJalrXUtnFEMIK7MDENGbPxRfiCYEXAMPLEKEY"}),
        ({"aws_secret_access_key": "PW-8", "region_name": "eu-1", "token_pin": 123456}, {"PW-8", "123456"}),
        ({"keyfile_dict": '{"private_key": "PW-9", "client_email": "me@x"}'}, {"PW-9"}),
    ],
)
def test_a_field_of_an_extra_is_secret_by_its_name_or_value(extra: dict[str, Any], secrets: set[str]) -> None:
    hidden = set(field_secrets(extra))
    if "keyfile_dict" not in extra:
        assert hidden == secrets
    assert secrets <= hidden


@pytest.mark.parametrize(
    ("name", "value", "secrets"),
    [
        ("spark.hadoop.fs.s3a.secret.key", "PW-1", {"PW-1"}),
        ("spark.hadoop.fs.azure.account.key.x.dfs.core.windows.net", "PW-2", {"PW-2"}),
        ("spark.driver.extraJavaOptions", "-Xss4m -Djavax.net.ssl.keyStorePassword=PW-3 -Dx=y", {"PW-3"}),
        ("spark.shop.header", "Basic PW-4", {"PW-4"}),
        ("spark.proxy", "http://me:PW-5@proxy:3128", {"me", "PW-5"}),
        ("spark.authenticate", "true", set()),
        ("spark.kubernetes.authenticate.driver.serviceAccountName", "spark", set()),
        ("spark.kubernetes.authenticate.submission.caCertFile", "/etc/ca.pem", set()),
        ("spark.hadoop.hadoop.security.authentication", "simple", set()),
        ("spark.hadoop.fs.s3a.aws.credentials.provider", "org.apache.hadoop.fs.s3a.SimpleProvider", set()),
        ("spark.local.dir", "/mnt/Disk1/scratch/of/the/spark/jobs/of/today", set()),
        ("spark.master", "k8s://https://h:6443", set()),
    ],
)
def test_a_spark_setting_is_secret_by_its_name_or_value(name: str, value: str, secrets: set[str]) -> None:
    assert set(conf_secrets({name: value})) == secrets


def test_secret_names_lists_only_secret_options() -> None:
    options = {"key": "k", "anon": False, "endpoint_url": "http://h", "client_kwargs": {"region_name": "eu"}}
    assert secret_names(options) == {"key"}
    assert secret_names({"endpoint_url": "http://me:PW@h"}) == {"endpoint_url"}


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("Wrong FS: file://u:PW@h/x, expected: file:///", "Wrong FS: file://***@h/x, expected: file:///"),
        ("at jdbc:postgresql://u:PW@h/db", "at jdbc:postgresql://***@h/db"),
        ("{'url': 'amqp://u:PW@h'}", "{'url': 'amqp://***@h'}"),
        ("spark://CoarseGrainedScheduler@10.0.0.1:4040", "spark://CoarseGrainedScheduler@10.0.0.1:4040"),
        ('{"url":"http://h:9000/x","mail":"a@b"}', '{"url":"http://h:9000/x","mail":"a@b"}'),
        ("http://a:PW@one,http://c:PW@two", "http://***@one,http://***@two"),
        ("GET https://b.s3/x?X-Amz-Signature=PW&a=1 failed", "GET https://b.s3/x?X-Amz-Signature=***&a=1 failed"),
        ("file:/lake/a:b/c@d", "file:/lake/a:b/c@d"),
        ("file:///lake/a:b/c@d", "file:///lake/a:b/c@d"),
        ("26/01/01 12:00:00 INFO x: hdfs://nn:8020/in", "26/01/01 12:00:00 INFO x: hdfs://nn:8020/in"),
    ],
)
def test_credentials_of_any_uri_are_hidden_in_any_text(text: str, shown: str) -> None:
    assert redact(text, ()) == shown


def test_a_local_uri_with_a_password_is_refused_and_not_shown() -> None:
    for act in (open_storage, canonical_uri):
        with pytest.raises(InvalidStorageUriError, match="it holds a password") as raised:
            act("file://u:PW@h/x")
        assert "PW" not in f"{raised.value} {raised.value.data}"


@pytest.mark.parametrize(
    ("uri", "shown"),
    [
        ("file:///lake/a b:c@d", "/lake/a b:c@d"),
        ("file:/lake/x", "/lake/x"),
        ("file://u:PW@h/x", "file://***@h/x"),
        ("s3://bucket/x", "s3://bucket/x"),
    ],
)
def test_the_path_of_a_file_shows_no_password(uri: str, shown: str) -> None:
    assert shown_path(uri) == shown


def test_a_long_line_of_a_log_is_redacted_quickly() -> None:
    before = time.process_time()
    redact("x" * 1_000_000 + "://" + "a1" * 300_000, ())
    assert time.process_time() - before < 10


def test_a_driver_hides_secrets_that_it_gets_during_its_run() -> None:
    note_given(["PW-before"])
    with hiding_given(["PW-root"]):
        read_connection("db", {"AIRFLOW_CONN_DB": "postgres://me:PW-shop@h/x"})
        assert redact_given("PW-before, PW-root, PW-shop") == "PW-before, ***, ***"
    assert redact_given("PW-root, PW-shop") == "PW-root, PW-shop"
