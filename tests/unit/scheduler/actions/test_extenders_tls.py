"""Extenders over TLS: the certificates that they and their client show."""

import ssl
from base64 import b64encode
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from devcluster.keys import make_keys
from tidelock.framework.config_file import ConfigurationError, Extender
from tidelock.framework.extender import ExtenderAdviceData
from tidelock.scheduler.actions.extenders import Extenders
from unit.kube.scripted import ScriptedServer, answers
from unit.scheduler.actions.test_extenders import advise, extender


class TestTls:
    @asynccontextmanager
    async def serving(self, folder: Path, *, ask_for_certificate: bool = False) -> AsyncIterator[Any]:
        keys = make_keys(folder)
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        tls.load_cert_chain(keys.server_certificate, keys.server_key)
        if ask_for_certificate:
            tls.verify_mode = ssl.CERT_REQUIRED
            tls.load_verify_locations(keys.authority)
        server = ScriptedServer()
        await server.start(tls)
        server.replays(answers({"NodeNames": ["node-a"]}))
        yield server, keys
        await server.close()

    async def asked(self, server: ScriptedServer, **tls: Any) -> ExtenderAdviceData:
        return await advise(extender(server, filterVerb="filter", nodeCacheCapable=True, **tls))

    async def test_a_server_is_trusted_by_its_certificate_authority(self, tmp_path: Path) -> None:
        async with self.serving(tmp_path) as (server, keys):
            advice = await self.asked(server, enableHTTPS=True, tlsConfig={"caFile": str(keys.authority)})
            assert advice.names == {"node-a"}

    async def test_the_certificate_authority_may_be_inline(self, tmp_path: Path) -> None:
        async with self.serving(tmp_path) as (server, keys):
            data = b64encode(keys.authority.read_bytes()).decode()
            advice = await self.asked(server, tlsConfig={"caData": data, "caFile": "/nowhere"})
            assert advice.names == {"node-a"}

    async def test_a_server_with_an_untrusted_certificate_gets_no_request(self, tmp_path: Path) -> None:
        async with self.serving(tmp_path) as (server, _):
            assert "certificate verify failed" in (await self.asked(server)).error
            assert server.asked == []

    @pytest.mark.parametrize("fields", [{"enableHTTPS": True}, {"tlsConfig": {"insecure": True}}])
    async def test_a_server_is_not_verified_if_the_configuration_is_insecure(
        self, tmp_path: Path, fields: dict[str, Any]
    ) -> None:
        async with self.serving(tmp_path) as (server, _):
            assert (await self.asked(server, **fields)).names == {"node-a"}

    async def test_the_server_name_may_differ_from_the_address(self, tmp_path: Path) -> None:
        async with self.serving(tmp_path) as (server, keys):
            authority = {"caFile": str(keys.authority)}
            wrong = await self.asked(server, tlsConfig={**authority, "serverName": "somebody.else"})
            assert "certificate verify failed" in wrong.error
            right = await self.asked(server, tlsConfig={**authority, "serverName": "localhost"})
            assert right.names == {"node-a"}

    @pytest.mark.parametrize("as_data", [True, False])
    async def test_a_client_certificate_is_sent(self, tmp_path: Path, as_data: bool) -> None:
        async with self.serving(tmp_path, ask_for_certificate=True) as (server, keys):
            pair = {"cert": keys.admin_certificate, "key": keys.admin_key}
            fields = {
                f"{name}{'Data' if as_data else 'File'}": b64encode(path.read_bytes()).decode()
                if as_data
                else str(path)
                for name, path in pair.items()
            }
            advice = await self.asked(server, tlsConfig={"caFile": str(keys.authority), **fields})
            assert advice.names == {"node-a"}

    @pytest.mark.parametrize(
        "tls", [{"caFile": "/nowhere"}, {"caData": "bm8="}, {"certData": "bm8=", "keyData": "bm8="}]
    )
    def test_a_certificate_that_cannot_be_loaded_is_an_error_of_the_configuration(
        self, tls: dict[str, str]
    ) -> None:
        broken = Extender.model_validate({"urlPrefix": "https://a", "tlsConfig": tls})
        with pytest.raises(
            ConfigurationError, match=r"^extenders: https://a: tlsConfig: can't load the certif"
        ):
            Extenders((broken,))
