"""URIs that contain a secret, in each place that a URI has for one."""

from __future__ import annotations

from urllib.parse import quote

from hypothesis import strategies as st

MARK = "S3CR"


SECRETS = st.builds(
    lambda rest: MARK + rest, st.text(st.characters(exclude_categories=["C", "Z"]), min_size=4, max_size=20)
)


def uris_with(secret: str) -> list[str]:
    part = quote(secret, safe="")
    return [
        f"s3://AKIA1234:{part}@bucket/x",
        f"s3://AKIA1234:{secret.replace('?', '/').replace('#', '/')}@bucket/x",
        f"s3://{part}@bucket/x",
        f"S3A://{part}:{part}@bucket:9000/x@y",
        f"https://host:9000/x?token={part}",
        f"https://host/x?sv=1&sig={part}&se=2#access_token={part}",
        f"abfss://lake@account.dfs.core.windows.net/x?sig={part}",
        f"abfss://me:{part}@account.dfs.core.windows.net/x",
        f"gs://bucket/x?X-Goog-Signature={part}&X-Amz-Credential={part}",
        f"simplecache::s3://me:{part}@bucket/x",
        f"nothing-known://me:{part}@bucket/x",
    ]
