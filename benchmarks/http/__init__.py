"""The HTTP API beside a bare FastAPI application, on the same uvicorn settings."""
