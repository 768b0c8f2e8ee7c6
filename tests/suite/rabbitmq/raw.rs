//! Publishes what no client library would: a content header given as bytes.

use std::io::{Read, Write};
use std::net::TcpStream;

use redrive::internals::domain::id::QueueName;
use redrive::internals::domain::naming::Naming;

/// A content header for a body of `size` bytes with a content type of any bytes, persistent.
pub(crate) fn header_with_content_type(size: usize, content_type: &[u8]) -> Vec<u8> {
    let mut properties = vec![u8::try_from(content_type.len()).unwrap()];
    properties.extend(content_type);
    properties.push(2);
    header(size, 0x8000 | 0x1000, &properties)
}

/// A content header whose only application header `deep` is a table nested `levels` deep.
pub(crate) fn header_with_nesting(size: usize, levels: usize) -> Vec<u8> {
    // A table is its length and its entries; an entry is a short name, a type and the value.
    let mut table = 0_u32.to_be_bytes().to_vec();
    for _ in 0..levels {
        let mut outer = u32::try_from(table.len() + 3).unwrap().to_be_bytes().to_vec();
        outer.extend(b"\x01kF");
        outer.extend(table);
        table = outer;
    }
    let mut properties = u32::try_from(table.len() + 6).unwrap().to_be_bytes().to_vec();
    properties.extend(b"\x04deepF");
    properties.extend(table);
    properties.push(2);
    header(size, 0x2000 | 0x1000, &properties)
}

fn header(size: usize, flags: u16, properties: &[u8]) -> Vec<u8> {
    let mut header = vec![0, 60, 0, 0];
    header.extend((size as u64).to_be_bytes());
    header.extend(flags.to_be_bytes());
    header.extend(properties);
    header
}

/// Publishes `body` with `header` to a queue, through the exchange, and waits for the confirm.
pub(crate) async fn publish(naming: &Naming, queue: &QueueName, header: Vec<u8>, body: &'static [u8]) {
    publish_to(&naming.vhost, &naming.exchange(), queue.as_str(), header, body).await;
}

/// The same to any exchange.
pub(crate) async fn publish_to(vhost: &str, exchange: &str, key: &str, header: Vec<u8>, body: &'static [u8]) {
    let (vhost, exchange, queue) = (vhost.to_owned(), exchange.to_owned(), key.to_owned());
    let publishing = tokio::task::spawn_blocking(move || {
        let mut raw = Raw::connect(&vhost);
        raw.method(1, (85, 10), &[0], (85, 11));
        raw.send(
            1,
            1,
            &method((60, 40), &[&[0, 0], &short(&exchange), &short(&queue), &[0]]),
        );
        raw.send(2, 1, &header);
        raw.send(3, 1, body);
        raw.wait((60, 80));
    });
    publishing.await.unwrap();
}

struct Raw(TcpStream);

impl Raw {
    fn connect(vhost: &str) -> Self {
        let url = url::Url::parse(&crate::support::servers::variable("REDRIVE_TEST_AMQP")).unwrap();
        let address = (url.host_str().unwrap(), url.port().unwrap_or(5672));
        let stream = TcpStream::connect(address).unwrap();
        stream
            .set_read_timeout(Some(std::time::Duration::from_secs(20)))
            .unwrap();
        let mut raw = Self(stream);
        raw.0.write_all(b"AMQP\0\0\x09\x01").unwrap();
        raw.wait((10, 10));
        let login = format!("\0{}\0{}", url.username(), url.password().unwrap());
        let login = [&u32::try_from(login.len()).unwrap().to_be_bytes(), login.as_bytes()].concat();
        let start_ok = [&[0, 0, 0, 0], short("PLAIN").as_slice(), &login, &short("en_US")].concat();
        let tune = raw.method(0, (10, 11), &start_ok, (10, 30));
        raw.send(1, 0, &method((10, 31), &[&tune[4..10], &[0, 0]]));
        raw.method(0, (10, 40), &[short(vhost).as_slice(), &[0, 0]].concat(), (10, 41));
        raw.method(1, (20, 10), &[0], (20, 11));
        raw
    }

    fn method(&mut self, channel: u16, id: (u16, u16), arguments: &[u8], answer: (u16, u16)) -> Vec<u8> {
        self.send(1, channel, &method(id, &[arguments]));
        self.wait(answer)
    }

    fn send(&mut self, kind: u8, channel: u16, payload: &[u8]) {
        let length = u32::try_from(payload.len()).unwrap();
        let frame = [
            &[kind],
            channel.to_be_bytes().as_slice(),
            &length.to_be_bytes(),
            payload,
            &[0xCE],
        ]
        .concat();
        self.0.write_all(&frame).unwrap();
    }

    fn wait(&mut self, (class, id): (u16, u16)) -> Vec<u8> {
        loop {
            let mut head = [0; 7];
            self.0.read_exact(&mut head).expect("the broker answers");
            let mut payload = vec![0; u32::from_be_bytes(head[3..7].try_into().unwrap()) as usize + 1];
            self.0.read_exact(&mut payload).unwrap();
            let got = (
                u16::from_be_bytes([payload[0], payload[1]]),
                u16::from_be_bytes([payload[2], payload[3]]),
            );
            if head[0] == 1 && got == (class, id) {
                return payload;
            }
            assert!(
                head[0] == 8 || !matches!(got, (10, 50) | (20, 40)),
                "closed: {}",
                String::from_utf8_lossy(&payload)
            );
        }
    }
}

fn method((class, id): (u16, u16), arguments: &[&[u8]]) -> Vec<u8> {
    let mut bytes = [class.to_be_bytes(), id.to_be_bytes()].concat();
    bytes.extend(arguments.concat());
    bytes
}

fn short(text: &str) -> Vec<u8> {
    [&[u8::try_from(text.len()).unwrap()], text.as_bytes()].concat()
}
