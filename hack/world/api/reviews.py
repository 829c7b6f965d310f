"""Reviews of rights and tokens. Every client has every right."""

from typing import Any

import msgspec

from world.api.operations import User

Json = dict[str, Any]


def answer(plural: str, body: bytes, user: User) -> Json:
    """Return a review with its answer."""
    try:
        review = msgspec.json.decode(body, type=Json)
    except msgspec.DecodeError:
        review = {}
    match plural:
        case "selfsubjectreviews":
            status: Json = {"userInfo": user.info}
        case "tokenreviews":
            status = {"authenticated": True, "user": user.info}
        case _:
            status = {"allowed": True}
    return review | {"status": status}
