"""Who may see and do what: users, projects, memberships, API tokens, one-time login links, the audit log."""

from __future__ import annotations

from django.contrib.auth.models import AbstractUser
from django.db import models


class User(AbstractUser):
    """A person. Passwords are optional: the first admin enters by a one-time link."""


class Role(models.TextChoices):
    """In a project, each role may do what the ones before it may."""

    VIEWER = "viewer"
    OPERATOR = "operator"
    ADMIN = "admin"


class Project(models.Model):
    """Every run, task set, token, limit and alert belongs to one."""

    slug = models.SlugField(unique=True)
    name = models.CharField(max_length=200)
    created_at = models.DateTimeField(auto_now_add=True)

    def __str__(self) -> str:
        return self.slug


class Membership(models.Model):
    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="memberships")
    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="memberships")
    role = models.CharField(max_length=16, choices=Role)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["project", "user"], name="one_role_per_member")
        ]

    def __str__(self) -> str:
        return f"{self.user} is {self.role} of {self.project}"


class ApiToken(models.Model):
    """A secret for programs: shown once, kept as a hash, found by its public prefix."""

    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="api_tokens")
    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="api_tokens")
    name = models.CharField(max_length=100)
    role = models.CharField(max_length=16, choices=Role)
    prefix = models.CharField(max_length=16, unique=True)
    digest = models.CharField(max_length=64)
    created_at = models.DateTimeField(auto_now_add=True)
    expires_at = models.DateTimeField(null=True)
    last_used_at = models.DateTimeField(null=True)
    revoked_at = models.DateTimeField(null=True)

    def __str__(self) -> str:
        return f"{self.name} ({self.prefix}...)"


class LoginLink(models.Model):
    """A link that signs one user in, once, before it expires."""

    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="login_links")
    digest = models.CharField(max_length=64, unique=True)
    created_at = models.DateTimeField(auto_now_add=True)
    expires_at = models.DateTimeField()
    used_at = models.DateTimeField(null=True)

    def __str__(self) -> str:
        return f"login link of {self.user}"


class AuditEntry(models.Model):
    """Who did what to what. Append only."""

    project = models.ForeignKey(Project, null=True, on_delete=models.PROTECT)
    actor = models.ForeignKey(User, null=True, on_delete=models.PROTECT)
    at = models.DateTimeField(db_index=True)
    action = models.CharField(max_length=100)
    target = models.CharField(max_length=200)
    details = models.JSONField(default=dict)

    def __str__(self) -> str:
        return f"{self.at:%F %T} {self.actor} {self.action} {self.target}"
