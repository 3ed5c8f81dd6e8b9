//! Sockets: slow clients, idle ones, too many.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use crate::support::{read_answer, sh, task, until};

#[test]
fn a_client_that_dribbles_its_head_is_cut_off() {
    let worker = sh("true").start();
    // Not its first request: between two, a connection may be idle for longer.
    let mut stream = task("e1").send_only(&worker);
    assert_eq!(read_answer(stream.try_clone().unwrap()).status, 200);
    stream.write_all(b"POST / HTTP/1.1\r\n").unwrap();
    let clock = ax::ops::clock::Clock::start();
    let mut dribble = stream.try_clone().unwrap();
    std::thread::spawn(move || {
        while dribble.write_all(b"a: b\r\n").is_ok() {
            std::thread::sleep(Duration::from_millis(200));
        }
    });
    stream.set_read_timeout(Some(Duration::from_secs(15))).unwrap();
    let mut rest = Vec::new();
    match stream.read_to_end(&mut rest) {
        Ok(_) => {}
        Err(error) => assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset),
    }
    let waited = clock.mono().as_millis();
    assert!((4_000..10_000).contains(&waited), "{waited}");
}

#[test]
fn an_idle_connection_is_kept_as_its_header_promises() {
    let worker = sh("echo $AX_ID").start();
    let mut stream = task("e1").send_only(&worker);
    let first = read_answer(stream.try_clone().unwrap());
    assert_eq!(first.header("keep-alive"), "timeout=60");
    // Longer than a head may take, hence longer than the limit of a connection that has begun one.
    std::thread::sleep(Duration::from_secs(7));
    stream
        .write_all(b"POST / HTTP/1.1\r\nHost: w\r\nce-id: e2\r\nce-axattempt: 1\r\nContent-Length: 0\r\n\r\n")
        .unwrap();
    let second = read_answer(stream);
    assert_eq!(second.json().as_str(), Some("e2"));
}

#[test]
fn a_head_over_16_kib_is_refused() {
    let worker = sh("echo 1").start();
    let sized = |length: usize| task(&format!("e{length}")).with("x-long", &"x".repeat(length));
    assert_eq!(sized(15 * 1024).post(&worker).status, 200);
    assert_eq!(sized(17 * 1024).post(&worker).status, 431);
}

#[test]
fn one_connection_too_many_is_told_so_and_the_others_are_served() {
    let worker = sh("echo 1").concurrency(1).start();
    let held: Vec<TcpStream> = (0..4 + 64).map(|_| TcpStream::connect(worker.address).unwrap()).collect();
    let turned_away = read_answer(TcpStream::connect(worker.address).unwrap());
    assert_eq!((turned_away.status, turned_away.header("retry-after")), (503, "1"));
    assert_eq!(turned_away.header("ratelimit"), r#""ax";r=1"#);
    let mut one = &held[0];
    one.write_all(b"GET /healthz HTTP/1.1\r\nHost: w\r\n\r\n").unwrap();
    assert_eq!(read_answer(one.try_clone().unwrap()).status, 200);
    drop(held);
    until("room again", || {
        let mut stream = TcpStream::connect(worker.address).unwrap();
        let request = b"GET /healthz HTTP/1.1\r\nHost: w\r\nConnection: close\r\n\r\n";
        stream.write_all(request).is_ok() && read_answer(stream).status == 200
    });
}
