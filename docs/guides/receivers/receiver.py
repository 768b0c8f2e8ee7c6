#!/usr/bin/env python3
"""A receiver of notifications, with nothing but the standard library: receiver.py PORT SECRET

It answers 401 to what is not signed with the secret, 409 to a sender that woke up late, and 204 to everything else. What
came already is answered and not handled again.
"""

import base64
import hashlib
import hmac
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

TOLERANCE_SECONDS = 300
BODY_BYTES_MAX = 24 * 1024 * 1024

# In a service these are tables, changed in the transaction that handles the notification.
seen_ids = set()
newest_epochs = {}
one_at_a_time = threading.Lock()


def handle(body):
    print(body.decode(errors="replace"), flush=True)


def is_signed(key, headers, body):
    """Standard Webhooks: one of the signatures is right, and the request is not an old one."""
    message_id, timestamp = headers.get("webhook-id", ""), headers.get("webhook-timestamp", "")
    if not timestamp.isdecimal() or abs(time.time() - int(timestamp)) > TOLERANCE_SECONDS:
        return False
    signed = f"{message_id}.{timestamp}.".encode() + body
    right = "v1," + base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()
    given = headers.get("webhook-signature", "").split()
    return any(hmac.compare_digest(right.encode(), one.encode()) for one in given)


def receive(headers, body):
    """The status to answer with; the caller lets one request in at a time."""
    queue, epoch = headers.get("redrive-queue"), headers.get("redrive-epoch", "")
    if queue and epoch.isdecimal():
        if int(epoch) < newest_epochs.get(queue, 0):
            return 409
        newest_epochs[queue] = int(epoch)
    if headers["webhook-id"] not in seen_ids:
        handle(body)
        seen_ids.add(headers["webhook-id"])
    return 204


class Receiver(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        length = self.headers.get("content-length", "")
        if not length.isdecimal() or int(length) > BODY_BYTES_MAX:
            self.close_connection = True
            return self.answer(413 if length.isdecimal() else 411)
        body = self.rfile.read(int(length))
        if not is_signed(self.server.key, self.headers, body):
            return self.answer(401)
        with one_at_a_time:
            return self.answer(receive(self.headers, body))

    def answer(self, status):
        self.send_response(status)
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, *_):
        pass


def main():
    port, secret = int(sys.argv[1]), sys.argv[2]
    server = ThreadingHTTPServer(("127.0.0.1", port), Receiver)
    server.key = base64.b64decode(secret.removeprefix("whsec_"))
    print(f"listening on http://127.0.0.1:{port}", file=sys.stderr, flush=True)
    server.serve_forever()


main()
