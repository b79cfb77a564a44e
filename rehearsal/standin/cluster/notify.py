"""What systemd is told."""

import os
import socket


def notify(text: str) -> None:
    address = os.environ.pop("NOTIFY_SOCKET", "")
    if address:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
            sender.connect(address.replace("@", "\0", 1) if address.startswith("@") else address)
            sender.sendall(text.encode())
