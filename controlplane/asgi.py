"""HTTP goes to Django, /ws/live to the consumer; there is no other socket."""

from __future__ import annotations

import os
from typing import Any

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "controlplane.settings")

from django.core.asgi import get_asgi_application

django_application = get_asgi_application()

from channels.auth import AuthMiddlewareStack  # noqa: E402 - Django first

from runs.consumers import LiveConsumer  # noqa: E402

live = AuthMiddlewareStack(LiveConsumer.as_asgi())


async def application(scope: dict[str, Any], receive: Any, send: Any) -> None:
    if scope["type"] == "http":
        await django_application(scope, receive, send)
    elif scope["type"] == "websocket" and scope["path"] == "/ws/live":
        await live(scope, receive, send)
    elif scope["type"] == "websocket":
        await send({"type": "websocket.close", "code": 4404})
    else:
        raise ValueError(f"There is no {scope['type']} here.")
