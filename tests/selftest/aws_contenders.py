"""Contends for objects of S3 and items of DynamoDB."""

from functools import cache
from typing import Any

import obstore
from obstore.exceptions import AlreadyExistsError, PreconditionError

from tests.selftest.contenders import KEY, Contender
from tests.servers.clients import dynamodb_client, s3_store

LIMIT = 100

# To make one takes longer than to use it.
_kept_client = cache(dynamodb_client)


class ObjectCreation(Contender):
    def __init__(self, url: str, corner: str, *, atomic: bool) -> None:
        super().__init__(url, corner, atomic=atomic)
        self.store = s3_store(url, corner)

    def prepare(self) -> None:
        """Nothing: the race is to be the first."""

    def attempt(self, turn: int, writer: int) -> bool:
        path = f"turn-{turn}"
        try:
            if self.atomic:
                obstore.put(self.store, path, b"%d" % writer, mode="create")
            elif not self._exists(path):
                obstore.put(self.store, path, b"%d" % writer)
            else:
                return False
        except (AlreadyExistsError, PreconditionError):
            return False
        return True

    def _exists(self, path: str) -> bool:
        try:
            obstore.head(self.store, path)
        except FileNotFoundError:
            return False
        return True

    def values(self, turns: int) -> list[int]:
        return [int(bytes(obstore.get(self.store, f"turn-{turn}").bytes())) for turn in range(turns)]


class ObjectCounter(Contender):
    def __init__(self, url: str, corner: str, *, atomic: bool) -> None:
        super().__init__(url, corner, atomic=atomic)
        self.store = s3_store(url, corner)

    def prepare(self) -> None:
        obstore.put(self.store, KEY, b"0")

    def attempt(self, turn: int, writer: int) -> bool:
        got = obstore.get(self.store, KEY)
        tag = got.meta["e_tag"]
        body = b"%d" % (int(bytes(got.bytes())) + 1)
        try:
            if self.atomic:
                obstore.put(self.store, KEY, body, mode={"e_tag": tag})
            else:
                obstore.put(self.store, KEY, body)
        except (PreconditionError, FileNotFoundError):
            return False
        return True

    def values(self, turns: int) -> list[int]:
        return [int(bytes(obstore.get(self.store, KEY).bytes()))]


class DynamoContender(Contender):
    def __init__(self, url: str, corner: str, *, atomic: bool) -> None:
        super().__init__(url, corner, atomic=atomic)
        self.client = _kept_client(url)

    def prepare(self) -> None:
        self.put(0)

    def read(self) -> int:
        got = self.client.get_item(TableName=self.corner, Key={"pk": {"S": KEY}}, ConsistentRead=True)
        return int(got["Item"]["n"]["N"])

    def put(self, value: int, **condition: Any) -> None:  # noqa: ANN401 - boto3's arguments
        item = {"pk": {"S": KEY}, "n": {"N": str(value)}}
        self.client.put_item(TableName=self.corner, Item=item, **condition)

    def values(self, turns: int) -> list[int]:
        return [self.read()]


class ItemCounter(DynamoContender):
    """The number is the version: it is put only over the version that was read."""

    def attempt(self, turn: int, writer: int) -> bool:
        seen = self.read()
        if not self.atomic:
            self.put(seen + 1)
            return True
        expected = {":seen": {"N": str(seen)}}
        try:
            self.put(seen + 1, ConditionExpression="n = :seen", ExpressionAttributeValues=expected)
        except self.client.exceptions.ConditionalCheckFailedException:
            return False
        return True


class ItemLimit(DynamoContender):
    """The number counts what was let through, and may never pass the limit."""

    def attempt(self, turn: int, writer: int) -> bool:
        if not self.atomic:
            seen = self.read()
            if seen < LIMIT:
                self.put(seen + 1)
            return seen < LIMIT
        try:
            self.client.update_item(
                TableName=self.corner,
                Key={"pk": {"S": KEY}},
                UpdateExpression="SET n = n + :one",
                ConditionExpression="n < :limit",
                ExpressionAttributeValues={":one": {"N": "1"}, ":limit": {"N": str(LIMIT)}},
            )
        except self.client.exceptions.ConditionalCheckFailedException:
            return False
        return True
