"""What can be set, and who set it. Costs an import of pydantic: load it when it is needed."""

from forebay.settings.fields import Settings, Source
from forebay.settings.loading import load

__all__ = ["Settings", "Source", "load"]
