# A rendezvous by TCP, like that of a training framework: rank 0 listens, and its peers connect to each address
# of its name until one accepts. Rank 0 of a later attempt starts to listen late, because of a slow import.
import os
import socket
import time

ATTEMPT = os.environ["ROLLCALL_ATTEMPT"]
RANK = int(os.environ["RANK"])
NAME, PORT = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])


def serve():
    if ATTEMPT != "0":
        time.sleep(8)
    listener = socket.create_server(("", PORT), backlog=16)
    connections, peers = [], []
    while True:
        connection, _ = listener.accept()
        peers.append(connection.recv(100).decode())
        connection.sendall(f"attempt {ATTEMPT}: {', '.join(peers)}".encode())
        connections.append(connection)  # stays open


def join():
    resolved = None
    while True:
        try:
            found = socket.getaddrinfo(NAME, PORT, socket.AF_INET, socket.SOCK_STREAM)
        except socket.gaierror:
            found = []
        addresses = [address[4][0] for address in found]
        if addresses != resolved:
            print("resolved", *addresses, flush=True)
            resolved = addresses
        for address in addresses:
            try:
                connection = socket.create_connection((address, PORT), timeout=2)
            except OSError:
                continue
            connection.settimeout(None)
            connection.sendall(f"rank {RANK} of attempt {ATTEMPT}".encode())
            print("joined", connection.recv(100).decode(), flush=True)
            return connection
        time.sleep(0.1)


if RANK == 0:
    serve()
kept = join()
time.sleep(100000)
