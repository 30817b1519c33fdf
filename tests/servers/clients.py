"""Makes the clients that tests use: no retries, short timeouts, nothing from the caller's settings."""

from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote, urlsplit

import boto3
import redis
from botocore.config import Config
from obstore.store import S3Store

REGION = "us-east-1"
CONNECT_TIMEOUT_S = 5
# SeaweedFS lets the losers of a race wait for seconds.
READ_TIMEOUT_S = 20


@dataclass(frozen=True)
class AwsEndpoint:
    """An endpoint with its keys, read from http://KEY:SECRET@host:port; the test servers take any."""

    url: str
    access_key: str
    secret_key: str

    @classmethod
    def of(cls, url: str) -> "AwsEndpoint":
        parts = urlsplit(url)
        bare = parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()
        return cls(bare, unquote(parts.username or "test"), unquote(parts.password or "test"))


def redis_client(url: str) -> redis.Redis:
    return redis.Redis.from_url(
        url,
        socket_connect_timeout=CONNECT_TIMEOUT_S,
        socket_timeout=READ_TIMEOUT_S,
        retry=None,
        retry_on_error=[],
    )


def s3_store(url: str, bucket: str) -> S3Store:
    endpoint = AwsEndpoint.of(url)
    return S3Store(
        bucket,
        endpoint=endpoint.url,
        region=REGION,
        access_key_id=endpoint.access_key,
        secret_access_key=endpoint.secret_key,
        virtual_hosted_style_request=False,
        client_options={
            "allow_http": True,
            "connect_timeout": f"{CONNECT_TIMEOUT_S}s",
            "timeout": f"{READ_TIMEOUT_S}s",
        },
        retry_config={"max_retries": 0},
    )


def s3_client(url: str) -> Any:  # noqa: ANN401 - boto3 makes its classes at run time
    return _aws_client("s3", url)


def dynamodb_client(url: str) -> Any:  # noqa: ANN401 - boto3 makes its classes at run time
    return _aws_client("dynamodb", url)


def _aws_client(service: str, url: str) -> Any:  # noqa: ANN401 - boto3 makes its classes at run time
    endpoint = AwsEndpoint.of(url)
    return boto3.session.Session().client(
        service,
        endpoint_url=endpoint.url,
        region_name=REGION,
        aws_access_key_id=endpoint.access_key,
        aws_secret_access_key=endpoint.secret_key,
        config=Config(
            connect_timeout=CONNECT_TIMEOUT_S,
            read_timeout=READ_TIMEOUT_S,
            retries={"total_max_attempts": 1},
            s3={"addressing_style": "path"},
            proxies={},
        ),
    )
