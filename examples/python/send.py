"""Sends a payment through the proxy, and again until there is an answer. The key makes that safe, and nothing else is needed.

    FENCEPOST_PROXY=http://127.0.0.1:8080 python3 send.py order-4711
"""

import http.client
import os
import sys
import time
import urllib.error
import urllib.request

PROXY = os.environ.get("FENCEPOST_PROXY", "http://127.0.0.1:8080")
# 409: the first copy is still running. 503: not known now. Both say when to come back.
AGAIN = {409, 429, 502, 503, 504}


def pay(order, tries=5):
    for attempt in range(tries):
        request = urllib.request.Request(
            PROXY + "/payments",
            f"order={order}&amount=1200".encode(),
            {"Idempotency-Key": f"payment-{order}", "Content-Type": "application/x-www-form-urlencoded"},
        )
        delay = min(2**attempt, 30)
        try:
            with urllib.request.urlopen(request, timeout=10) as response:
                return response.headers["Idempotency-Status"], response.read().decode()
        except urllib.error.HTTPError as refused:
            if refused.code not in AGAIN:
                raise
            after = refused.headers.get("Retry-After", "")
            # It may also be a date, from the application or a gateway: then this program's own delay counts.
            delay = int(after) if after.isdecimal() else delay
        except (urllib.error.URLError, TimeoutError, ConnectionError, http.client.HTTPException):
            pass  # the connection broke, perhaps after the payment: the same key gets the answer of the first copy
        time.sleep(delay)
    raise SystemExit(f"no answer after {tries} tries")


if __name__ == "__main__":
    print(*pay(sys.argv[1] if len(sys.argv) > 1 else "order-4711"))
