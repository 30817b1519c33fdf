"""Gives a test its own corner of a shared server, and empties it afterwards."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import LiteralString
from urllib.parse import urlsplit
from uuid import uuid4

import psycopg
from psycopg import sql

from tests.servers.clients import (
    CONNECT_TIMEOUT_S,
    dynamodb_client,
    redis_client,
    s3_client,
)
from tests.servers.ministack import MiniStackServer
from tests.servers.server import Server


def fresh_name() -> str:
    return f"forebay-test-{uuid4().hex[:12]}"


@contextmanager
def fresh_database(server: Server) -> Iterator[str]:
    """Give the URL of an empty database."""
    name = fresh_name()
    _administer(server, "CREATE DATABASE {}", name)
    try:
        yield urlsplit(server.url)._replace(path=f"/{name}").geturl()
    finally:
        _administer(server, "DROP DATABASE {} WITH (FORCE)", name)


def _administer(server: Server, statement: LiteralString, name: str) -> None:
    with psycopg.connect(server.url, autocommit=True, connect_timeout=CONNECT_TIMEOUT_S) as admin:
        admin.execute(sql.SQL(statement).format(sql.Identifier(name)))


@contextmanager
def fresh_schema(server: Server) -> Iterator[str]:
    """Give the URL of an empty schema, a tenth of the price of a database."""
    name = fresh_name()
    _administer(server, "CREATE SCHEMA {}", name)
    try:
        yield urlsplit(server.url)._replace(query=f"options=-csearch_path%3D{name}").geturl()
    finally:
        _administer(server, "DROP SCHEMA {} CASCADE", name)


def empty_schema(address: str) -> None:
    """Delete all rows of what a fresh schema has got since: cheaper than TRUNCATE, which makes new files."""
    with psycopg.connect(address, autocommit=True, connect_timeout=CONNECT_TIMEOUT_S) as admin:
        found = admin.execute("SELECT tablename FROM pg_tables WHERE schemaname = current_schema()").fetchall()
        for (table,) in found:
            admin.execute(sql.SQL("DELETE FROM {}").format(sql.Identifier(table)))


@contextmanager
def fresh_prefix(server: Server) -> Iterator[str]:
    """Give the start that all keys of the test must have."""
    prefix = f"{fresh_name()}:"
    try:
        yield prefix
    finally:
        with redis_client(server.url) as client:
            for key in client.scan_iter(match=f"{prefix}*", count=1000):
                client.unlink(key)


@contextmanager
def fresh_bucket(server: Server) -> Iterator[str]:
    name = fresh_name()
    client = s3_client(server.url)
    client.create_bucket(Bucket=name)
    try:
        yield name
    finally:
        for page in client.get_paginator("list_objects_v2").paginate(Bucket=name):
            for item in page.get("Contents", []):
                client.delete_object(Bucket=name, Key=item["Key"])
        client.delete_bucket(Bucket=name)
        client.close()


@contextmanager
def fresh_table(server: MiniStackServer) -> Iterator[str]:
    """Give a DynamoDB table whose key is the string `pk`."""
    name = fresh_name()
    client = dynamodb_client(server.dynamodb_url)
    client.create_table(
        TableName=name,
        KeySchema=[{"AttributeName": "pk", "KeyType": "HASH"}],
        AttributeDefinitions=[{"AttributeName": "pk", "AttributeType": "S"}],
        BillingMode="PAY_PER_REQUEST",
    )
    client.get_waiter("table_exists").wait(TableName=name, WaiterConfig={"Delay": 1})
    try:
        yield name
    finally:
        client.delete_table(TableName=name)
        client.close()
