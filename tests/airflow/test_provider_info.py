from __future__ import annotations

import importlib
import json
from pathlib import Path

import airflow
import jsonschema  # type: ignore[import-untyped]

from airflow_provider_ckpt.get_provider_info import get_provider_info
from airflow_provider_ckpt.hooks.checkpoint import CheckpointHook

AIRFLOW = Path(airflow.__file__).parent


def test_the_provider_info_follows_airflows_schema() -> None:
    schema = json.loads((AIRFLOW / "provider_info.schema.json").read_text())
    jsonschema.validate(get_provider_info(), schema)


def test_the_connection_form_follows_airflows_schema() -> None:
    whole = json.loads((AIRFLOW / "provider.yaml.schema.json").read_text())
    properties = whole["properties"]["connection-types"]["items"]["properties"]
    (connection,) = get_provider_info()["connection-types"]
    for part in ("ui-field-behaviour", "conn-fields"):
        jsonschema.validate(connection[part], {**properties[part], "definitions": whole.get("definitions", {})})


def test_every_class_and_module_in_the_provider_info_exists() -> None:
    info = get_provider_info()
    for part in ("operators", "sensors", "hooks", "triggers"):
        for modules in info[part]:
            for name in modules["python-modules"]:
                importlib.import_module(name)
    (connection,) = info["connection-types"]
    module, _, name = connection["hook-class-name"].rpartition(".")
    hook = getattr(importlib.import_module(module), name)
    assert hook is CheckpointHook
    assert connection["connection-type"] == hook.conn_type
    assert connection["hook-name"] == hook.hook_name
