"""What happens inside, for those who watch: events, and from them logs and metrics."""

from forebay.observe.events import emit, subscribe, wanted

__all__ = ["emit", "subscribe", "wanted"]
