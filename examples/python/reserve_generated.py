"""The same with a client that is generated from the sidecar's own document: its calls and answers have types.

    pip install openapi-python-client
    openapi-python-client generate --url http://127.0.0.1:8081/openapi.json --meta none --output-path fencepost_api
    FENCEPOST_URL=http://127.0.0.1:8081 python3 reserve_generated.py order-4711

What no document can say is written here: when to extend, and that the work ends where the lease is lost.
"""

import asyncio
import json
import os
import sys
import uuid

import httpx
from fencepost_api import Client
from fencepost_api.api.default import complete, extend, reserve
from fencepost_api.models import CompleteBody, CompleteResponse200, ExtendBody, ExtendResponse200, Problem

API = os.environ.get("FENCEPOST_URL", "http://127.0.0.1:8081")


def refusal(problem):
    return RuntimeError(f"{problem.status} {problem.code}: {problem.detail}")


async def heartbeat(client, held, good_until, extended):
    """Ends where the lease can no longer be extended: then the work has to stop."""
    clock, lease = asyncio.get_running_loop().time, held.expires_in_ms / 1000
    while clock() < good_until:
        await asyncio.sleep(min(lease / 3, max(0.0, good_until - clock())))
        asked_at, body = clock(), ExtendBody(fencing_token=held.fencing_token)
        try:
            async with asyncio.timeout_at(good_until):  # one try gets no more than the time that is left
                answer = await extend.asyncio(held.reservation_id, client=client, body=body)
        except (httpx.TransportError, TimeoutError):
            continue  # the sidecar did not answer: while time is left, another try
        if isinstance(answer, Problem) and answer.status == 410:
            break
        if isinstance(answer, ExtendResponse200):
            good_until = asked_at + lease * 0.95
            extended.set()
    raise RuntimeError("the lease was lost: another worker may have begun")


async def pay_once(client, order):
    sent_at = asyncio.get_running_loop().time()
    intent = {"session_id": str(uuid.uuid4()), "reserved_value": f"payment:{order}", "lease": "3s", "wait": "5s"}
    held = await reserve.asyncio(client=client, body=intent)
    if isinstance(held, Problem):
        if held.code == "reservation-duplicate":
            return "replayed", held.result
        raise refusal(held)
    extended = asyncio.Event()
    # A task that fails cancels the others of its group, and so the work.
    async with asyncio.TaskGroup() as group:
        good_until = sent_at + held.expires_in_ms / 1000 * 0.95
        beating = group.create_task(heartbeat(client, held, good_until, extended))
        # … the work: whatever it writes carries held.fencing_token, as in reserve.py …
        await asyncio.wait_for(extended.wait(), 10)
        result = {"order": order, "attempt": held.attempt}
        body = CompleteBody(fencing_token=held.fencing_token, result=result)
        ended = await complete.asyncio(held.reservation_id, client=client, body=body)
        if not isinstance(ended, CompleteResponse200):
            raise refusal(ended)  # 410: another outcome stands. 503: not known; reserve again tells
        beating.cancel()
    return "created", result


async def main(order):
    async with Client(base_url=API, timeout=httpx.Timeout(15)) as client:
        how, result = await pay_once(client, order)
        print(how, json.dumps(result))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else "order-4711"))
