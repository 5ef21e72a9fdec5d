"""Takes a payment once, with Python's standard library: reserve, renew, write with the fencing token, complete.

    FENCEPOST_URL=http://127.0.0.1:8081 python3 reserve.py order-4711

The table is SQLite's here, so that the program needs nothing else; the statement is the same on PostgreSQL.
"""

import http.client
import json
import os
import sqlite3
import sys
import threading
import time
import urllib.error
import urllib.request
import uuid

API = os.environ.get("FENCEPOST_URL", "http://127.0.0.1:8081")


def call(path, body, timeout=15):
    data = json.dumps(body).encode()
    request = urllib.request.Request(API + path, data, {"content-type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=timeout) as response:
            return response.status, json.load(response)
    except urllib.error.HTTPError as refused:
        return refused.code, json.load(refused)


class Heartbeat(threading.Thread):
    """Extends the lease every third of it, and sets `lost` before it is over: then stop working."""

    def __init__(self, path, token, lease_ms, sent_at):
        super().__init__(daemon=True)
        self.path, self.token, self.lease = path, token, lease_ms / 1000
        self.good_until = sent_at + self.lease * 0.95
        self.lost, self.done, self.extended = threading.Event(), threading.Event(), threading.Event()

    def run(self):
        try:
            self.extend_while_time_is_left()
        finally:
            # Whatever ended it, also an error of its own: nothing extends the lease any more.
            if not self.done.is_set():
                self.lost.set()

    def extend_while_time_is_left(self):
        while not self.done.wait(max(0.0, min(self.lease / 3, self.good_until - time.monotonic()))):
            sent_at = time.monotonic()
            left = self.good_until - sent_at
            if left <= 0:
                break
            try:
                status, _ = call(self.path + "/extend", self.token, left)  # one try gets no more than the time that is left
            except (OSError, http.client.HTTPException, ValueError):
                continue  # no answer, half of one, or the page of a gateway: while time is left, another try
            if status == 200:
                self.good_until = sent_at + self.lease * 0.95
                self.extended.set()
            elif status == 410:
                break


def pay_once(database, order, amount, work=lambda heartbeat: None):
    # One session for all tries: after an answer that was lost, the same call gets the same reservation.
    intent = {"session_id": str(uuid.uuid4()), "reserved_value": f"payment:{order}", "lease": "3s", "wait": "5s"}
    sent_at = time.monotonic()
    status, held = call("/v1/reservations", intent)
    if status == 409 and held.get("reservation_status") == "DUPLICATE":
        return "replayed", held.get("result")
    if status != 201:
        raise RuntimeError(f'{status} {held["code"]}: {held["detail"]}')

    path = f'/v1/reservations/{held["reservation_id"]}'
    token = {"fencing_token": held["fencing_token"]}
    heartbeat = Heartbeat(path, token, held["expires_in_ms"], sent_at)
    heartbeat.start()
    try:
        work(heartbeat)
        if heartbeat.lost.is_set():
            raise RuntimeError("the lease was lost: another worker may have begun")
        # A later holder has a larger token. A row with one is not overwritten, and then this worker came too late.
        with database:
            written = database.execute(
                "INSERT INTO payment (order_id, amount, fencing_token) VALUES (?, ?, ?)"
                " ON CONFLICT (order_id) DO UPDATE SET fencing_token = excluded.fencing_token"
                " WHERE payment.fencing_token <= excluded.fencing_token",
                (order, amount, held["fencing_token"]),
            ).rowcount
        if written == 0:
            raise RuntimeError("fenced: a later worker wrote this payment")
        result = {"order": order, "amount": amount}
        status, ended = call(path + "/complete", {**token, "result": result})
        if status != 200:  # 410: another outcome stands. 503: not known; reserve again tells
            raise RuntimeError(f'{status} {ended["code"]}: {ended["detail"]}')
        return "created", result
    finally:
        heartbeat.done.set()


def main(order):
    database = sqlite3.connect(os.environ.get("DATABASE", "payments.sqlite"))
    database.execute(
        "CREATE TABLE IF NOT EXISTS payment"
        " (order_id TEXT PRIMARY KEY, amount INTEGER NOT NULL, fencing_token INTEGER NOT NULL)"
    )
    # Work that outlasts a third of its lease, so that a heartbeat is seen.
    how, result = pay_once(database, order, 1200, lambda heartbeat: heartbeat.extended.wait(10))
    print(how, json.dumps(result))


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "order-4711")
