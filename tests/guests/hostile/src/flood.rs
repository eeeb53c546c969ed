//! One thing very often: handles that are never given back, waits without end, and words.

use std::hint::black_box;
use std::io::Write;
use std::mem::forget;

use serde::Deserialize;
use serde_json::{Value, json};
use toolhost_sdk::bindings::toolhost::plugin::{kv, log, progress, secrets};
use wasip2::cli::stdin::get_stdin;
use wasip2::cli::stdout::get_stdout;
use wasip2::clocks::{monotonic_clock, wall_clock};
use wasip2::filesystem::preopens::get_directories;
use wasip2::filesystem::types::{DescriptorFlags, OpenFlags, PathFlags};
use wasip2::http::types::{Fields, Method, OutgoingRequest};
use wasip2::io::poll::{Pollable, poll};
use wasip2::io::streams::InputStream;
use wasip2::random::{insecure, random};
use wasip2::sockets::network::IpAddressFamily;
use wasip2::sockets::{instance_network, ip_name_lookup, tcp_create_socket, udp_create_socket};

/// What to do, and how often or how much.
#[derive(Debug, Deserialize)]
pub(crate) struct Flood {
    /// One of the words below.
    of: String,
    #[serde(default)]
    times: u64,
    #[serde(default)]
    text: String,
}

const HOUR: u64 = 3_600_000_000_000;

/// Does it, and answers what there is to tell.
pub(crate) fn run(flood: &Flood) -> Value {
    let (times, text) = (flood.times, flood.text.as_str());
    let each = || 0..times;
    match flood.of.as_str() {
        // Handles.
        "pollables" => each().for_each(|_| forget(monotonic_clock::subscribe_duration(HOUR))),
        "given_back" => each().for_each(|_| drop(monotonic_clock::subscribe_duration(HOUR))),
        "fields" => each().for_each(|_| forget(Fields::new())),
        "requests" => each().for_each(|_| forget(OutgoingRequest::new(Fields::new()))),
        "preopens" => each().for_each(|_| forget(get_directories())),
        "stdin" => each().for_each(|_| forget(get_stdin())),
        "descriptors" => return opened(times, text, false),
        "listings" => return opened(times, text, true),
        "sockets" => return sockets(times),
        "foreign" => drop(unsafe { Pollable::from_handle(123_456) }),
        "used_after_drop" => {
            let dropped = monotonic_clock::subscribe_duration(HOUR).handle();
            return json!(unsafe { Pollable::from_handle(dropped) }.ready());
        }
        "of_another_type" => {
            let pollable = monotonic_clock::subscribe_duration(HOUR);
            let stream = unsafe { InputStream::from_handle(pollable.handle()) };
            return json!(stream.read(1).is_ok());
        }
        // Waiting.
        "sleep" => monotonic_clock::subscribe_duration(u64::MAX).block(),
        "sleep_on_many" => {
            let many: Vec<_> =
                each().map(|n| monotonic_clock::subscribe_duration(HOUR + n)).collect();
            poll(&many.iter().collect::<Vec<_>>());
        }
        "poll_nothing" => drop(poll(&[])),
        "always_ready" => {
            let stdout = get_stdout();
            let ready = stdout.subscribe();
            loop {
                black_box(poll(&[&ready]));
            }
        }
        "poll_one_often" => {
            let stdout = get_stdout();
            let ready = stdout.subscribe();
            let all: Vec<_> = each().map(|_| &ready).collect();
            return json!(poll(&all).len());
        }
        "read_stdin" => return json!(get_stdin().blocking_read(times).is_err()),
        // Loops through the host.
        "log_for_ever" => loop {
            log::log(log::Level::Info, "again");
        },
        "kv_for_ever" => loop {
            black_box(kv::get("x").is_ok());
        },
        "clock_for_ever" => loop {
            black_box((monotonic_clock::now(), wall_clock::now()));
        },
        "random_for_ever" => loop {
            black_box(random::get_random_bytes(65_536));
        },
        "environment_for_ever" => loop {
            black_box(wasip2::cli::environment::get_environment());
        },
        // Words and bytes.
        "log" => each().for_each(|n| log::log(log::Level::Error, &format!("{text}{n}"))),
        "progress" => each().for_each(|n| progress::progress(n as f64, None, Some(text))),
        "odd_progress" => {
            for done in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, f64::MAX, -0.0, -1.0] {
                progress::progress(done, Some(done), Some(text));
            }
        }
        "stderr" => each().for_each(|_| eprintln!("{text}")),
        "stdout" => each().for_each(|_| println!("{text}")),
        "zeroes" => return json!(get_stdout().write_zeroes(times).is_ok()),
        "random" => return json!(random::get_random_bytes(times).len()),
        "insecure" => return json!(insecure::get_insecure_random_bytes(times).len()),
        "kv" => {
            let last =
                each().map(|n| kv::set(&format!("{n}"), text.as_bytes())).find(Result::is_err);
            return json!(last.map(|error| format!("{error:?}")));
        }
        "large_kv" => {
            let large = "x".repeat(times as usize);
            let key = kv::set(&large, b"").map_err(|error| format!("{error:?}"));
            let value = kv::set("x", large.as_bytes()).map_err(|error| format!("{error:?}"));
            return json!([key.err(), value.err()]);
        }
        "large_secret" => {
            let large = text.repeat(times as usize);
            return json!([secrets::present(&large), secrets::placeholder(&large).is_some()]);
        }
        "large_field" => {
            let fields = Fields::new();
            let taken =
                each().take_while(|n| fields.append(&format!("x-{n}"), text.as_bytes()).is_ok());
            return json!(taken.count());
        }
        "large_host" => {
            let request = OutgoingRequest::new(Fields::new());
            return json!(request.set_authority(Some(&"x".repeat(times as usize))).is_ok());
        }
        "large_method" => {
            let request = OutgoingRequest::new(Fields::new());
            return json!(request.set_method(&Method::Other("X".repeat(times as usize))).is_ok());
        }
        "large_path" => {
            let request = OutgoingRequest::new(Fields::new());
            return json!(request.set_path_with_query(Some(&"/x".repeat(times as usize))).is_ok());
        }
        "large_answer" => return json!("x".repeat(times as usize)),
        "mix" => return crate::hold::mix(times, text),
        held if held.starts_with("hold_") => return crate::hold::hold(held, times, text),
        // Other ends.
        "recurse" => return json!(recurse(0)),
        "grow" => grow(),
        "abort" => std::process::abort(),
        "stderr_handle" => drop(std::io::stderr().write_all(&vec![0; times as usize])),
        other => return json!({ "error": format!("there is no flood of {other}") }),
    }
    json!("ok")
}

/// Opens a path of the first directory again and again; how many it got, and what ended it.
fn opened(times: u64, path: &str, list: bool) -> Value {
    let directories = get_directories();
    let Some((at, _)) = directories.first() else { return json!({ "error": "no directory" }) };
    for count in 0..times {
        let flags = if list { OpenFlags::DIRECTORY } else { OpenFlags::empty() };
        match at.open_at(PathFlags::empty(), path, flags, DescriptorFlags::READ) {
            Ok(file) if list => match file.read_directory() {
                Ok(listing) => forget(listing),
                Err(code) => return json!({ "opened": count, "error": code.name() }),
            },
            Ok(file) => forget(file),
            Err(code) => return json!({ "opened": count, "error": code.name() }),
        }
    }
    json!({ "opened": times })
}

/// How many sockets it could make, and whether a name could be looked up.
fn sockets(times: u64) -> Value {
    let tcp = (0..times).filter(|_| {
        tcp_create_socket::create_tcp_socket(IpAddressFamily::Ipv4).map(forget).is_ok()
    });
    let udp = (0..times).filter(|_| {
        udp_create_socket::create_udp_socket(IpAddressFamily::Ipv6).map(forget).is_ok()
    });
    let network = instance_network::instance_network();
    let found = ip_name_lookup::resolve_addresses(&network, "localhost").is_ok();
    json!([tcp.count(), udp.count(), found])
}

#[allow(unconditional_recursion)]
fn recurse(n: u64) -> u64 {
    black_box(recurse(black_box(n + 1)) + 1)
}

/// Takes memory one page at a time until it is refused.
fn grow() {
    let mut pages: Vec<Vec<u8>> = Vec::new();
    loop {
        pages.push(black_box(vec![1; 65_536]));
    }
}
