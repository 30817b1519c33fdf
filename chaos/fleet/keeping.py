"""Looks at what the servers hold, past their proxies: what has not ended, and every object as a file."""

from __future__ import annotations

from pathlib import Path

import psycopg

from tests.servers.clients import s3_client

_OPEN = """
    SELECT (SELECT count(*) FROM forebay_tasks WHERE status IN ('pending', 'running'))
         + (SELECT count(*) FROM forebay_jobs WHERE status IN ('pending', 'running'))
"""


def open_count(url: str) -> int:
    """Tasks and jobs that have not ended."""
    with psycopg.connect(url, connect_timeout=5) as db:
        row = db.execute(_OPEN).fetchone()
    return int(row[0]) if row else 0


def objects(url: str, bucket: str, folder: Path) -> None:
    """Every object of a bucket, as a file: a judge needs no server, and can look again when they are gone."""
    client = s3_client(url)
    for page in client.get_paginator("list_objects_v2").paginate(Bucket=bucket):
        for item in page.get("Contents", []):
            path = folder / item["Key"]
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(client.get_object(Bucket=bucket, Key=item["Key"])["Body"].read())
    client.close()
