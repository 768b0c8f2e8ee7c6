//! Messages as the frameworks write them, made after the files that [`FRAMEWORKS`] names.

use bytes::Bytes;
use serde_json::json;

use super::*;

fn message(headers: &[(&str, &str)]) -> Message {
    Message {
        headers: headers
            .iter()
            .map(|(name, text)| ((*name).to_owned(), HeaderValue::text(text)))
            .collect(),
        ..Message::default()
    }
}

const NET_TRACE: &str = "   at System.Linq.Enumerable.First[T](IEnumerable`1 source)\n   at \
    Shop.Billing.Charge(Order order) in /src/Billing.cs:line 42\n   at MassTransit.Consume()";

#[test]
fn error_queues_are_known_by_their_names() {
    for name in [
        "billing_error",
        "billing_skipped",
        "error",
        "EasyNetQ_Default_Error_Queue",
        "mails-error",
    ] {
        assert!(is_error_queue(name, &[]), "{name}");
    }
    for name in ["billing", "errors", "error_log", "orders.dead"] {
        assert!(!is_error_queue(name, &[]), "{name}");
    }
    assert!(is_error_queue("parked.orders", &["parked.*".to_owned()]));
}

#[test]
fn masstransit_says_its_queue_by_address_or_by_name() {
    let fault = message(&[
        ("MT-Reason", "fault"),
        ("MT-Fault-InputAddress", "rabbitmq://host/vhost/billing?durable=true"),
        ("MT-Fault-Message", "order 4711 of \"Ann\" is unknown"),
        ("MT-Fault-ExceptionType", "Shop.UnknownOrder"),
        ("MT-Fault-StackTrace", NET_TRACE),
        ("MT-Fault-Timestamp", "2026-04-20T16:30:00.1234567Z"),
        ("MT-Fault-RetryCount", "3"),
    ]);
    let read = recognise("other_error", &fault).unwrap();
    assert_eq!(
        (read.framework, read.died_in.as_deref()),
        ("MassTransit", Some("billing"))
    );
    assert_eq!(read.kind.as_deref(), Some("Shop.UnknownOrder"));
    assert_eq!(read.frame.as_deref(), Some("Shop.Billing.Charge"));
    assert_eq!(read.attempts, Some(4));
    assert_eq!(read.at.map(Timestamp::seconds), Some(1_776_702_600));
    let skipped = recognise("billing_skipped", &message(&[("MT-Reason", "dead-letter")])).unwrap();
    assert_eq!(skipped.died_in.as_deref(), Some("billing"));
}

#[test]
fn nservicebus_names_the_queue_that_failed() {
    let failed = message(&[
        ("NServiceBus.FailedQ", "Shop.Sales@MACHINE"),
        (
            "NServiceBus.ExceptionInfo.ExceptionType",
            "System.InvalidOperationException",
        ),
        ("NServiceBus.ExceptionInfo.Message", "no stock"),
        ("NServiceBus.ExceptionInfo.StackTrace", NET_TRACE),
        ("NServiceBus.TimeOfFailure", "2014-11-11 02:26:58:000462 Z"),
    ]);
    let read = recognise("error", &failed).unwrap();
    assert_eq!(
        (read.framework, read.died_in.as_deref()),
        ("NServiceBus", Some("Shop.Sales"))
    );
    assert_eq!(read.frame.as_deref(), Some("Shop.Billing.Charge"));
    assert_eq!(read.at.map(Timestamp::micros), Some(1_415_672_818_000_462));
}

#[test]
fn spring_names_exchange_and_key_and_its_trace_the_root() {
    let trace = "org.springframework.amqp.rabbit.support.ListenerExecutionFailedException: Listener threw exception\n\
        \tat org.springframework.amqp.Container.invoke(Container.java:1)\n\
        Caused by: java.lang.IllegalStateException: order 12 is closed\n\
        \tat java.base/java.util.Optional.get(Optional.java:143)\n\
        \tat com.shop.Orders.handle(Orders.java:12)\n";
    let given_up = message(&[
        ("x-exception-stacktrace", trace),
        ("x-exception-message", "order 12 is closed"),
        ("x-original-exchange", "shop"),
        ("x-original-routingKey", "order.created"),
    ]);
    let read = recognise("parked", &given_up).unwrap();
    assert_eq!((read.framework, read.died_in.as_deref()), ("Spring AMQP", None));
    let published = read.published.unwrap();
    assert_eq!(
        (published.exchange.as_str(), published.routing_key.as_str()),
        ("shop", "order.created")
    );
    assert_eq!(read.kind.as_deref(), Some("java.lang.IllegalStateException"));
    assert_eq!(read.frame.as_deref(), Some("com.shop.Orders.handle"));
}

#[test]
fn easynetq_is_unwrapped_with_its_properties() {
    let document = json!({
        "RoutingKey": "order.created",
        "Exchange": "shop",
        "Queue": "orders",
        "Exception": format!("System.InvalidOperationException: no stock\n{NET_TRACE}"),
        "Message": "{\"n\":1}",
        "DateTime": "2026-04-20T16:30:00Z",
        "BasicProperties": {"ContentType": "application/json", "Type": "Shop.Order, Shop", "CorrelationId": "c-1",
            "Headers": {"tenant": "t1", "n": 7}},
    });
    let wrapped = Message {
        kind: Some("EasyNetQ.SystemMessages.Error, EasyNetQ".to_owned()),
        body: Bytes::from(document.to_string()),
        ..Message::default()
    };
    let read = recognise("EasyNetQ_Default_Error_Queue", &wrapped).unwrap();
    assert_eq!(
        (read.died_in.as_deref(), read.error.as_deref()),
        (Some("orders"), Some("no stock"))
    );
    assert_eq!(read.kind.as_deref(), Some("System.InvalidOperationException"));
    assert_eq!(
        (read.frame.as_deref(), read.damaged),
        (Some("Shop.Billing.Charge"), None)
    );
    let inside = unwrapped("EasyNetQ_Default_Error_Queue", &wrapped).unwrap();
    assert_eq!(
        (&inside.body[..], inside.kind.as_deref()),
        (&b"{\"n\":1}"[..], Some("Shop.Order, Shop"))
    );
    assert_eq!(
        (inside.header_text("tenant"), inside.header_integer("n")),
        (Some("t1"), Some(7))
    );
    let other = Message {
        kind: Some("EasyNetQ.SystemMessages.ErrorReport, Shop".to_owned()),
        ..wrapped
    };
    assert_eq!((recognise("q", &other), unwrapped("q", &other)), (None, None));
}

#[test]
fn sneakers_is_unwrapped_and_goes_to_the_queue_of_its_name() {
    let document = json!({
        "error": "boom",
        "error_class": "Shop::Closed",
        "error_message": "order 12 is closed",
        "backtrace": "/usr/lib/ruby/gems/3.0/gems/bunny/x.rb:1:in `y', /app/workers/mail.rb:7:in `work'",
        "num_attempts": 6,
        "failed_at": "2026-04-20T16:30:00+02:00",
        "payload": "aGVs\nbG8=\n",
    });
    let wrapped = Message {
        body: Bytes::from(document.to_string()),
        ..Message::default()
    };
    let read = recognise("mails-error", &wrapped).unwrap();
    assert_eq!((read.died_in.as_deref(), read.attempts), (Some("mails"), Some(6)));
    assert_eq!(read.frame.as_deref(), Some("/app/workers/mail.rb:7:in `work'"));
    assert_eq!(unwrapped("mails-error", &wrapped).unwrap().body, "hello");
    assert_eq!(recognise("mails", &wrapped), None, "another queue's JSON is no wrapper");
    let seen_once = Message {
        headers: vec![("x-delivery-count".to_owned(), HeaderValue::Integer(1))],
        ..wrapped.clone()
    };
    assert_eq!(unwrapped("mails-error", &seen_once).unwrap().body, "hello");
    let published = Message {
        headers: vec![("tenant".to_owned(), HeaderValue::text("t1"))],
        ..wrapped
    };
    assert_eq!(unwrapped("mails-error", &published), None, "it writes no headers");
}

#[test]
fn a_celery_task_is_named_by_its_headers_and_goes_by_its_death() {
    let mut task = message(&[
        ("task", "shop.pay"),
        ("id", "t-1"),
        ("argsrepr", "(1,)"),
        ("lang", "py"),
    ]);
    assert_eq!(recognise("dead", &task), None);
    task.headers
        .push(("x-death".to_owned(), HeaderValue::Array(Vec::new())));
    task.headers.push(("retries".to_owned(), HeaderValue::Integer(2)));
    let read = recognise("dead", &task).unwrap();
    assert_eq!(
        (read.kind.as_deref(), read.message_id.as_deref()),
        (Some("shop.pay"), Some("t-1"))
    );
    assert_eq!((read.attempts, read.died_in), (Some(3), None));
}

#[test]
fn what_is_odd_is_left_out() {
    let odd = message(&[("MT-Reason", ""), ("task", "x"), ("x-original-routingKey", "k")]);
    assert_eq!(recognise("q", &odd), None);
    let spread = message(&[
        ("MT-Fault-InputAddress", "no address"),
        ("MT-Fault-Timestamp", "yesterday"),
    ]);
    let read = recognise("q_error", &spread).unwrap();
    assert_eq!((read.died_in.as_deref(), read.at), (Some("q"), None));
}
