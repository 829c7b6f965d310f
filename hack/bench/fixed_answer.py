"""The floor of webhooks, one that decides nothing: python -m bench.fixed_answer PORT KEYS FILE.

It answers every creation with the annotations in a file, in the place of the operator. It serves by the same
library, without routes, authentication or limits. No operator in Python can answer faster.
"""

import asyncio
import base64
import ssl
import sys
from pathlib import Path

import msgspec
import uvloop
from aiohttp import web

from devcluster.keys import Keys
from devcluster.loopback import HOST
from tidelock.binders.reviews import respond

_KEEPALIVE = 600.0  # seconds, as the operator's


class _Request(msgspec.Struct, frozen=True):
    uid: str


class _Review(msgspec.Struct, frozen=True):
    request: _Request


async def serve(port: int, keys: Keys, annotations: bytes) -> None:
    """Answer until the process is stopped."""
    patch = b'[{"op":"add","path":"/metadata/annotations","value":%b}]' % annotations
    fixed = {"allowed": True, "patchType": "JSONPatch", "patch": base64.b64encode(patch).decode()}
    decode = msgspec.json.Decoder(_Review).decode

    async def answer(request: web.BaseRequest) -> web.Response:
        body = await request.read()
        if not body:
            return web.Response()  # the check of its health
        uid = decode(body).request.uid
        return web.Response(body=respond({"uid": uid, **fixed}), content_type="application/json")

    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(keys.server_certificate, keys.server_key)
    server = web.Server(answer, keepalive_timeout=_KEEPALIVE)
    listener = await asyncio.get_running_loop().create_server(server, HOST, port, ssl=tls)
    await listener.serve_forever()


if __name__ == "__main__":
    uvloop.run(serve(int(sys.argv[1]), Keys.under(Path(sys.argv[2])), Path(sys.argv[3]).read_bytes()))
