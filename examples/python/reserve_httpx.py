"""The same with httpx and asyncio: the heartbeat is a task beside the work.

    pip install httpx
    FENCEPOST_URL=http://127.0.0.1:8081 python3 reserve_httpx.py order-4711
"""

import asyncio
import json
import os
import sys
import uuid
from contextlib import asynccontextmanager

import httpx

API = os.environ.get("FENCEPOST_URL", "http://127.0.0.1:8081")


class Duplicate(Exception):
    """It was done before: `result` is what was recorded."""

    def __init__(self, result):
        self.result = result


@asynccontextmanager
async def reserved(client, value):
    """Yields the reservation and cancels the work where its lease is lost."""
    intent = {"session_id": str(uuid.uuid4()), "reserved_value": value, "lease": "3s", "wait": "5s"}
    clock = asyncio.get_running_loop().time
    sent_at = clock()
    response = await client.post("/v1/reservations", json=intent)
    held = response.json()
    if held.get("reservation_status") == "DUPLICATE":
        raise Duplicate(held.get("result"))
    response.raise_for_status()
    path, token = f'/v1/reservations/{held["reservation_id"]}', {"fencing_token": held["fencing_token"]}
    lease = held["expires_in_ms"] / 1000

    async def heartbeat():
        good_until = sent_at + lease * 0.95
        while clock() < good_until:
            await asyncio.sleep(min(lease / 3, max(0.0, good_until - clock())))
            asked_at = clock()
            try:
                async with asyncio.timeout_at(good_until):  # one try gets no more than the time that is left
                    answer = await client.post(path + "/extend", json=token)
            except (httpx.TransportError, TimeoutError):
                continue  # the sidecar did not answer: while time is left, another try
            if answer.status_code == 410:
                break
            if answer.status_code == 200:
                good_until = asked_at + lease * 0.95
                held["extended"].set()
        raise RuntimeError("the lease was lost: another worker may have begun")

    async def complete(result):
        answer = await client.post(path + "/complete", json={**token, "result": result})
        answer.raise_for_status()  # 410: another outcome stands. 503: not known; reserve again tells

    held["extended"], held["complete"] = asyncio.Event(), complete
    # A task that fails cancels the others of its group, and so the work.
    async with asyncio.TaskGroup() as group:
        beating = group.create_task(heartbeat())
        yield held
        beating.cancel()


async def main(order):
    async with httpx.AsyncClient(base_url=API, timeout=15) as client:
        try:
            async with reserved(client, f"payment:{order}") as held:
                # … the work: whatever it writes carries held["fencing_token"], as in reserve.py …
                await asyncio.wait_for(held["extended"].wait(), 10)
                result = {"order": order, "attempt": held["attempt"]}
                await held["complete"](result)
            print("created", json.dumps(result))
        except Duplicate as duplicate:
            print("replayed", json.dumps(duplicate.result))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else "order-4711"))
