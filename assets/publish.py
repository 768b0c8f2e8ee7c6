#!/usr/bin/env python3
"""A publisher of notifications that is not redrive: wire format version 1 with pika.

    pip install pika
    publish.py --amqp amqp://user:password@host:5672/vhost \
        --execution order-4711 --url https://receiver.example/hook \
        [--id ID] [--content-type TYPE] [--header 'Name: value']… [--end] \
        [--redrive 'redrive --config FILE'] [BODY | - ]…

Each BODY is one notification, published in that order; `-` reads one from standard input.
Prints one JSON line {"id", "queue"} for each, only after the broker's confirm.

Exit codes: 0 all confirmed; 1 one was not, with its id on standard error: publish again
with the same id, for it may have arrived; 2 wrong usage.

What it must not do otherwise: declare or bind before it published. A queue that exists
without its binding is being deleted, and a message put there would be lost. So it publishes
first and declares only what a passive declare says is not there.
"""

import argparse
import json
import shlex
import subprocess
import sys
import time
import uuid

import pika
from pika.exceptions import AMQPError, ChannelClosedByBroker, NackError, UnroutableError

# How long a queue that exists may stay unbound, and the pause between two tries.
UNBOUND_SECONDS_MAX = 10.0
PAUSE_SECONDS = 0.1
NOT_FOUND = 404


class NotConfirmed(Exception):
    """The broker did not take the message, or did not say so."""


def target_of(command, execution, url):
    """Names and declare arguments: only redrive knows prefix, hash key and settings."""
    arguments = ["queue-name", "--execution", execution, "--url", url, "--json"]
    answer = subprocess.run(command + arguments, check=True, stdout=subprocess.PIPE)
    return json.loads(answer.stdout)


def queue_exists(connection, queue):
    """On a channel of its own: a failed passive declare closes the channel."""
    channel = connection.channel()
    try:
        channel.queue_declare(queue, passive=True)
    except ChannelClosedByBroker as closed:
        if closed.reply_code == NOT_FOUND:
            return False
        raise
    channel.close()
    return True


def declare_and_bind(channel, target):
    channel.queue_declare(target["queue"], durable=True, arguments=target["arguments"])
    channel.queue_bind(target["queue"], target["exchange"], routing_key=target["queue"])


def publish_confirmed(connection, channel, target, properties, body):
    """Returns after the broker's confirm; one message of a queue at a time keeps the order."""
    give_up = time.monotonic() + UNBOUND_SECONDS_MAX
    while True:
        try:
            channel.basic_publish(
                target["exchange"], target["queue"], body, properties, mandatory=True
            )
            return
        except UnroutableError:
            if not queue_exists(connection, target["queue"]):
                if properties.type == "end":
                    # There is nothing to end.
                    return
                declare_and_bind(channel, target)
                continue
        except NackError as refused:
            raise NotConfirmed("the broker refused the message") from refused
        if time.monotonic() >= give_up:
            raise NotConfirmed("the queue exists and takes no messages")
        connection.sleep(PAUSE_SECONDS)


def announce(channel, target):
    """Optional: has the message noticed at once instead of at the next look."""
    properties = pika.BasicProperties(delivery_mode=1)
    channel.basic_publish(target["exchange"], target["wake_key"], target["queue"].encode(), properties)


def properties_of(options, url, message_id):
    headers = {"x-redrive-url": url, "x-redrive-execution": options.execution}
    for line in options.header:
        name, _, value = line.partition(":")
        name, value = "x-redrive-header-" + name.strip(), value.strip()
        # A message has one value for a name: several are a list.
        headers[name] = f"{headers[name]}, {value}" if name in headers else value
    if options.polling_time is not None:
        headers["x-redrive-polling-time"] = options.polling_time
    if options.restart_count is not None:
        headers["x-redrive-restart-count"] = options.restart_count
    return pika.BasicProperties(
        message_id=message_id,
        type="end" if options.end else "notification",
        content_type=options.content_type,
        timestamp=int(time.time()),
        delivery_mode=2,
        headers=headers,
    )


def arguments():
    parser = argparse.ArgumentParser(description="Publish notifications for redrive to deliver.")
    parser.add_argument("--amqp", required=True, help="URL of the broker with the virtual host")
    parser.add_argument("--redrive", default="redrive", help="the command that prints queue names")
    parser.add_argument("--execution", required=True)
    parser.add_argument("--url", required=True)
    parser.add_argument("--id", help="of the one message; generated when absent")
    parser.add_argument("--content-type", default="application/json")
    parser.add_argument("--header", action="append", default=[], metavar="'NAME: VALUE'")
    parser.add_argument("--polling-time", type=int, metavar="SECONDS")
    parser.add_argument("--restart-count", type=int)
    parser.add_argument("--end", action="store_true", help="the end mark: no body")
    parser.add_argument("body", nargs="*")
    options = parser.parse_args()
    if options.end:
        options.body = options.body or [""]
    if not options.body or (options.id and len(options.body) > 1):
        parser.error("give one body or more, and an id for one only")
    if options.body.count("-") > 1:
        parser.error("standard input is read once: give one '-' only")
    return options


def main():
    options = arguments()
    try:
        target = target_of(shlex.split(options.redrive), options.execution, options.url)
    except (subprocess.CalledProcessError, OSError) as error:
        print(f"the name of the queue is not known: {error}", file=sys.stderr)
        return 2
    # A broker under an alarm takes nothing: then "unknown" after this long, not silence.
    parameters = pika.URLParameters(options.amqp)
    parameters.blocked_connection_timeout = 30
    connection = pika.BlockingConnection(parameters)
    channel = connection.channel()
    channel.confirm_delivery()
    # The URL as redrive writes it, which is what the queue's name was made from.
    url = target.get("url", options.url)
    for text in options.body:
        body = sys.stdin.buffer.read() if text == "-" else text.encode()
        message_id = options.id or str(uuid.uuid4())
        try:
            publish_confirmed(
                connection, channel, target, properties_of(options, url, message_id), body
            )
        except (NotConfirmed, AMQPError) as error:
            print(f"{message_id} is not confirmed: {error!r}", file=sys.stderr)
            return 1
        print(json.dumps({"id": message_id, "queue": target["queue"]}), flush=True)
    announce(channel, target)
    connection.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
