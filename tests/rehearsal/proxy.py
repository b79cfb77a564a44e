"""A proxy that wants a password: `python proxy.py ADDRESS PORT USER:PASSWORD`. Prints a line for each tunnel."""

import asyncio
import base64
import contextlib
import sys


async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(ConnectionError):
        while block := await reader.read(1 << 16):
            writer.write(block)
            await writer.drain()
    writer.close()


async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    head = (await reader.readuntil(b"\r\n\r\n")).decode()
    method, target, _ = head.splitlines()[0].split()
    wanted = f"Basic {base64.b64encode(sys.argv[3].encode()).decode()}"
    if f"proxy-authorization: {wanted}".lower() not in head.lower():
        writer.write(
            b'HTTP/1.1 407 Wants a password\r\nProxy-Authenticate: Basic realm="x"\r\nContent-Length: 0\r\n\r\n'
        )
    elif method != "CONNECT":
        writer.write(b"HTTP/1.1 501 Tunnels only\r\nContent-Length: 0\r\n\r\n")
    else:
        host, _, port = target.rpartition(":")
        there = await asyncio.open_connection(host, int(port))
        print(method, target, flush=True)
        writer.write(b"HTTP/1.1 200 Connected\r\n\r\n")
        await asyncio.gather(pump(reader, there[1]), pump(there[0], writer))
    with contextlib.suppress(ConnectionError):
        await writer.drain()
    writer.close()


async def main() -> None:
    server = await asyncio.start_server(serve, sys.argv[1], int(sys.argv[2]))
    print("ready", flush=True)
    await server.serve_forever()


asyncio.run(main())
