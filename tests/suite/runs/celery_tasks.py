"""A Celery application whose task is rejected without requeue until the file PASSES is there.

With arguments: sends the task for each of them and prints the tasks' ids. As a module of `celery worker`: handles them
and writes each one that passed into the file DONE.
"""

import os
import sys

from celery import Celery
from celery.exceptions import Reject
from kombu import Exchange, Queue

app = Celery("shop", broker=os.environ["AMQP"])
app.conf.task_queues = [
    Queue(
        "tasks",
        Exchange("tasks", type="direct"),
        routing_key="tasks",
        queue_arguments={"x-dead-letter-exchange": "tasks.dead"},
    )
]
app.conf.task_default_queue = "tasks"
app.conf.task_default_exchange = "tasks"
app.conf.task_default_routing_key = "tasks"
app.conf.worker_enable_remote_control = False


@app.task(name="shop.charge", acks_late=True)
def charge(order):
    if not os.path.exists(os.environ["PASSES"]):
        raise Reject("the card was refused", requeue=False)
    with open(os.environ["DONE"], "a", encoding="utf-8") as done:
        done.write(f"{order}\n")


if __name__ == "__main__":
    for argument in sys.argv[1:]:
        print(charge.delay(int(argument)).id)
