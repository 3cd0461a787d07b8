"""Secrets of the connection appear only in the driver's environment, never in an Airflow task's output or handovers."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any
from urllib.parse import quote_plus

import pytest
from airflow.providers.apache.spark.hooks.spark_submit import SparkSubmitHook
from hypothesis import given
from hypothesis import settings as settings_of_tests
from hypothesis import strategies as st

from airflow_provider_ckpt.hooks.connection_settings import location_of
from airflow_provider_ckpt.hooks.errors import InvalidCkptConnectionError
from airflow_provider_ckpt.hooks.spark_submit import CheckpointedSparkSubmitHook
from airflow_provider_ckpt.job.options.run_options import RunOptions
from tests.support.secret_uris import MARK, SECRETS, uris_with


def connection(**fields: str) -> Any:
    return SimpleNamespace(**{"host": None, "schema": None, "login": None, "password": None, **fields})


@given(st.tuples(SECRETS, st.integers(0, 10)).map(lambda drawn: uris_with(drawn[0])[drawn[1]]))
def test_the_error_for_a_root_with_credentials_does_not_show_them(uri: str) -> None:
    with pytest.raises(InvalidCkptConnectionError) as raised:
        location_of("ckpt", connection(host=uri), {})
    assert MARK not in str(raised.value) + repr(raised.value.data)


@settings_of_tests(max_examples=20)
@given(SECRETS, st.sampled_from(["password", "extra"]))
def test_a_secret_is_in_the_drivers_environment_but_not_on_its_command_line(secret: str, where: str) -> None:
    given_ = {"password": secret, "login": "me"} if where == "password" else {}
    extra = {"storage_options": {"client_kwargs": {"aws_session_token": secret}}} if where == "extra" else {}
    location = location_of("ckpt", connection(host="s3://bucket/x", **given_), extra)
    options = RunOptions(job="a.py:job", root=location.uri, job_id="a")
    base = SparkSubmitHook(conn_id="none")
    base._connection["master"], base._is_yarn = "local[1]", False  # on YARN the environment must be configuration
    hook = CheckpointedSparkSubmitHook(
        base,
        name="a",
        application_args=["--options", json.dumps(options.to_json())],
        on_status=lambda line: None,
        location=location,
    )
    command = hook._build_spark_submit_command("main.py")
    assert MARK not in " ".join(command) + repr(location)
    assert json.loads((hook._env or {})["CKPT_STORAGE_OPTIONS"]) == location.options
    printed = f"java.io.IOException: {json.dumps(secret)} was refused; {secret}"
    assert MARK not in "".join(hook._without_status_lines([printed]))


def cluster_hook(base: SparkSubmitHook, deploy_mode: str) -> CheckpointedSparkSubmitHook:
    base._connection.update(master="k8s://https://h:6443", deploy_mode=deploy_mode, namespace="default")
    base._is_yarn, base._is_kubernetes = False, True
    return CheckpointedSparkSubmitHook(base, name="a", application_args=[], on_status=lambda line: None)


def test_secrets_in_env_vars_of_a_cluster_driver_are_not_logged() -> None:
    base = SparkSubmitHook(
        conn_id="none",
        env_vars={
            "CKPT_STORAGE_OPTIONS": f'{{"secret": "{MARK} x"}}',
            "AIRFLOW_CONN_A": f"postgres://u:{MARK}@h",
            "B": "1",
        },
    )
    hook = cluster_hook(base, "cluster")
    shown = hook._mask_cmd(hook._build_spark_submit_command("main.py"))
    assert MARK not in shown
    assert "driverEnv.CKPT_STORAGE_OPTIONS=***" in shown
    assert "driverEnv.B=1" in shown


@pytest.mark.parametrize("given", ["conf", "env_vars"])
def test_secret_spark_settings_are_not_logged(given: str) -> None:
    secret = f"{MARK}/x y+z"
    settings: dict[str, Any] = {
        "conf": {"spark.hadoop.fs.s3a.secret.key": secret, "spark.x": f"-Dpassword={MARK}-2", "spark.y": "1"},
        "env_vars": {"AWS_SECRET_ACCESS_KEY": secret, "PROXY": f"http://me:{MARK}-2@h", "Y": "1"},
    }
    base = SparkSubmitHook(conn_id="none", **{given: settings[given]})
    base._connection["master"], base._is_yarn = "local[1]", False
    hook = CheckpointedSparkSubmitHook(base, name="a", application_args=[], on_status=lambda line: None)
    command = hook._build_spark_submit_command("main.py")
    shown = hook._mask_cmd(command)
    assert MARK not in shown
    if given == "conf":
        assert "spark.y=1" in shown
        assert secret in " ".join(command)
    printed = f"java.io.IOException: {secret} was refused; {quote_plus(secret)} {json.dumps(secret)} {MARK}-2"
    assert list(hook._without_status_lines([printed])) == ['java.io.IOException: *** was refused; *** "***" ***']


def test_a_drivers_output_in_client_mode_does_not_name_the_pod_to_delete() -> None:
    line = "Deployed a with application ID spark-1 and submission ID default:somebody-else into Kubernetes"
    in_client_mode, in_cluster_mode = (
        cluster_hook(SparkSubmitHook(conn_id="none"), mode) for mode in ("client", "cluster")
    )
    for hook in (in_client_mode, in_cluster_mode):
        assert list(hook._without_status_lines([line])) == [line]
    assert in_client_mode._kubernetes_driver_pod is None
    assert in_cluster_mode._kubernetes_driver_pod == "somebody-else"
