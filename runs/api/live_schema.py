"""The messages of the WebSocket in the OpenAPI document, so that one generator gives a client all types."""

from __future__ import annotations

from typing import Any

from controlplane.schema import json_schema
from runs.events import ClientMessage, ServerMessage


def add_live_messages(result: dict[str, Any], **_: Any) -> dict[str, Any]:
    """A postprocessing hook of drf-spectacular: LiveServerMessage, LiveClientMessage and their parts."""
    components = result["components"]["schemas"]
    for name, message in (
        ("LiveServerMessage", ServerMessage),
        ("LiveClientMessage", ClientMessage),
    ):
        schema, definitions = json_schema(message)
        components[name] = schema
        components.update(definitions)
    result["components"]["schemas"] = dict(sorted(components.items()))
    return result
