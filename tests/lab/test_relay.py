from __future__ import annotations

import asyncio

from scrapy_resiproxy.lab.relay import SiteLinks


def test_a_resting_connection_goes_out_again_and_one_that_the_site_closed_does_not():
    served = []

    async def echo_one_line(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        served.append(asyncio.current_task())
        writer.write(await reader.readline())
        writer.close()
        await writer.wait_closed()

    async def run() -> None:
        server = await asyncio.start_server(echo_one_line, "127.0.0.1", 0)
        links = SiteLinks(*server.sockets[0].getsockname())
        first, second = await links.take(), await links.take()
        links.put_back(first)
        links.put_back(second)
        assert await links.take() is second
        second.writer.write(b"bye\n")
        assert await second.reader.read() == b"bye\n"
        links.put_back(second)
        assert await links.take() is first
        third = await links.take()
        assert third not in {first, second}
        links.put_back(first)
        links.put_back(third)
        links.close()
        for link in (first, second, third):
            await link.writer.wait_closed()
        server.close()
        await asyncio.gather(*served)

    asyncio.run(run())
