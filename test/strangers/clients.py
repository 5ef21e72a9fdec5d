"""Clients of Python: `clients.py NAME ORIGIN` prints what the client made of the answers, as JSON."""

import io
import json
import sys

import httpx
import requests
import urllib3
from requests.adapters import HTTPAdapter
from urllib3.util import Retry

ORDER = {"item": 7}


def requests_retrying(origin):
    session = requests.Session()
    retry = Retry(total=3, status_forcelist=[429, 503], allowed_methods=None, backoff_factor=0)
    session.mount("http://", HTTPAdapter(max_retries=retry))
    return session.post(f"{origin}/orders", json=ORDER, headers={"Idempotency-Key": "order-7"}).json()


def requests_session(origin):
    """Two users of one program, and a login between them."""
    answers = []
    for user in ("ann", "ben"):
        session = requests.Session()
        session.post(f"{origin}/login", data={"user": user})
        answers.append(session.post(f"{origin}/orders", json=ORDER).json())
    return answers


def urllib3_retrying(origin):
    pool = urllib3.PoolManager(retries=Retry(total=3, allowed_methods=None, status_forcelist=[503], backoff_factor=0))
    answer = pool.request("POST", f"{origin}/orders", fields={"item": "7", "file": ("a.txt", b"text")})
    return [answer.status, json.loads(answer.data)]


def httpx_streaming(origin):
    with httpx.Client() as client:
        sent = [client.post(f"{origin}/files", content=iter([b"a", b"b"])).json() for _ in range(2)]
        sent.append(client.post(f"{origin}/files", files={"file": io.BytesIO(b"text")}).json())
        with client.stream("POST", f"{origin}/orders", json=ORDER) as answer:
            sent.append("".join(answer.iter_text()))
        return sent


print(json.dumps(globals()[sys.argv[1]](sys.argv[2])))
