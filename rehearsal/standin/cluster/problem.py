"""Refusals, in the words and shape of a Kubernetes API server."""

from typing import Any

REASONS = {
    400: "BadRequest",
    401: "Unauthorized",
    403: "Forbidden",
    404: "NotFound",
    405: "MethodNotAllowed",
    409: "Conflict",
    410: "Expired",
    415: "UnsupportedMediaType",
    422: "Invalid",
    429: "TooManyRequests",
    500: "InternalError",
}


class ProblemError(Exception):
    def __init__(
        self, code: int, message: str, reason: str = "", details: dict[str, Any] | None = None
    ) -> None:
        super().__init__(message)
        self.code, self.message = code, message
        self.reason = reason or REASONS.get(code, "Unknown")
        self.details = details

    def status(self) -> dict[str, Any]:
        body: dict[str, Any] = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": self.message,
            "reason": self.reason,
        }
        if self.details:
            body["details"] = self.details
        return {**body, "code": self.code}


def _qualified(plural: str, group: str) -> str:
    return f"{plural}.{group}" if group else plural


def not_found(plural: str, name: str, group: str = "") -> ProblemError:
    details = {"name": name, "kind": plural, **({"group": group} if group else {})}
    return ProblemError(404, f'{_qualified(plural, group)} "{name}" not found', details=details)


def already_exists(plural: str, name: str, group: str = "") -> ProblemError:
    details = {"name": name, "kind": plural, **({"group": group} if group else {})}
    return ProblemError(409, f'{_qualified(plural, group)} "{name}" already exists', "AlreadyExists", details)


def conflict(plural: str, name: str, group: str = "") -> ProblemError:
    text = (
        f'Operation cannot be fulfilled on {_qualified(plural, group)} "{name}": the object has been modified; '
        "please apply your changes to the latest version and try again"
    )
    return ProblemError(409, text, "Conflict", {"name": name, "kind": plural})


def invalid(kind: str, name: str, field: str, why: str, group: str = "") -> ProblemError:
    full = _qualified(kind, group)
    details = {"name": name, "kind": kind, "causes": [{"message": why, "field": field}]}
    return ProblemError(422, f'{full} "{name}" is invalid: {field}: {why}', details=details)
