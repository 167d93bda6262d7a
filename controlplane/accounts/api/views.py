"""Who is asking, signing in and out, and the tokens of the one who asks."""

from __future__ import annotations

from typing import Any

from django.contrib.auth import authenticate, login, logout
from django.middleware.csrf import get_token
from django.utils import timezone
from django.utils.decorators import method_decorator
from django.views.decorators.csrf import csrf_protect
from django.views.decorators.debug import sensitive_post_parameters
from rest_framework.permissions import AllowAny
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView
from typing_extensions import TypedDict

from controlplane.accounts import selectors, throttle, tickets
from controlplane.accounts.access import presented_token
from controlplane.accounts.api.serializers import IssueTokenSerializer, LoginSerializer
from controlplane.accounts.audit import record_audit
from controlplane.accounts.models import Role, User
from controlplane.accounts.services.tokens import issue_token, revoke_token
from controlplane.api import body, filters, page
from controlplane.errors import Forbidden
from controlplane.schema import describes, lists


class IssuedTokenRow(TypedDict):
    """A new token; its text is shown here once and never again."""

    id: int
    name: str
    text: str


class TicketRow(TypedDict):
    """Good for one connection to /ws/live?ticket=... within 30 seconds."""

    ticket: str


def acting_user(request: Request) -> User:
    """IsAuthenticated lets nobody else in."""
    assert isinstance(request.user, User)
    return request.user


def me(request: Request) -> selectors.MeRow:
    user = acting_user(request)
    return selectors.MeRow(
        user=selectors.UserRow(id=user.pk, username=user.username, is_superuser=user.is_superuser),
        projects=selectors.projects(user).all(),
        csrf=get_token(request),
    )


class MeView(APIView):
    @describes(selectors.MeRow)
    def get(self, request: Request) -> Response:
        """Who asks, and what they may do where."""
        return Response(me(request))


@method_decorator(csrf_protect, name="dispatch")
@method_decorator(sensitive_post_parameters("password"), name="dispatch")
class LoginView(APIView):
    """Open to all, but not to other sites: the CSRF cookie comes with any page."""

    authentication_classes: list[Any] = []
    permission_classes = [AllowAny]

    @describes(selectors.MeRow, request=LoginSerializer)
    def post(self, request: Request) -> Response:
        """Start a session by password."""
        given = body(request, LoginSerializer)
        throttle.count_try(given["username"], request.META.get("REMOTE_ADDR", ""))
        user = authenticate(request, **given)
        if not isinstance(user, User):
            raise Forbidden("The name or the password is wrong.", code="bad_login")
        login(request, user)
        throttle.forget_tries(given["username"])
        record_audit(user, "login.password", user, project=None, now=timezone.now())
        request.user = user
        return Response(me(request))


class LogoutView(APIView):
    @describes(None, status=204)
    def post(self, request: Request) -> Response:
        """End the session of this browser."""
        logout(request)
        return Response(status=204)


class TicketView(APIView):
    @describes(TicketRow, status=201)
    def post(self, request: Request) -> Response:
        """A one-time ticket for the WebSocket."""
        user = acting_user(request)
        return Response({"ticket": tickets.issue_ticket(user, presented_token(user))}, status=201)


class ProjectList(APIView):
    @lists(selectors.ProjectRow)
    def get(self, request: Request) -> Response:
        """Projects of the one who asks."""
        filters(request)
        return page(request, selectors.projects(request.user))


class TokenList(APIView):
    @lists(selectors.TokenRow)
    def get(self, request: Request) -> Response:
        """One's own API tokens, revoked ones too."""
        filters(request)
        return page(request, selectors.tokens(request.user))

    @describes(IssuedTokenRow, request=IssueTokenSerializer, status=201)
    def post(self, request: Request) -> Response:
        """Make an API token; the answer is the only place where its text is."""
        given = body(request, IssueTokenSerializer)
        token, text = issue_token(
            acting_user(request),
            selectors.project_named(request.user, given.get("project")),
            name=given["name"],
            role=Role(given["role"]),
            expires_at=given["expires_at"],
            now=timezone.now(),
        )
        return Response(IssuedTokenRow(id=token.pk, name=token.name, text=text), status=201)


class TokenDetail(APIView):
    @describes(None, status=204)
    def delete(self, request: Request, token: int) -> Response:
        """Revoke one of one's own tokens."""
        user = acting_user(request)
        if presented_token(user) is not None:
            raise Forbidden("A token cannot revoke tokens; sign in with the browser.")
        revoke_token(user, token, now=timezone.now())
        return Response(status=204)
