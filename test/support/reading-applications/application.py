"""What Flask reads of a request, under gunicorn: each answer is a new one."""

from uuid import uuid4

from flask import Flask, jsonify, request

app = Flask(__name__)


@app.errorhandler(404)
def read(_):
    """Of every path: there is no route."""
    return (
        jsonify(
            id=str(uuid4()),
            method=request.method,
            path="/" + request.path.strip("/ \t\r\n"),
            mode=request.headers.get("X-Mode"),
            query=list(request.args.items(multi=True)),
            form=list(request.form.items(multi=True)),
        ),
        201,
    )
