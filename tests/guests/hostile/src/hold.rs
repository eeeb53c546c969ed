//! Handles that are held, with as much behind each as it takes.

use std::any::Any;
use std::hint::black_box;
use std::mem::forget;

use serde_json::{Value, json};
use wasip2::cli::stdin::get_stdin;
use wasip2::clocks::monotonic_clock;
use wasip2::filesystem::preopens::get_directories;
use wasip2::filesystem::types::{Descriptor, DescriptorFlags, ErrorCode, OpenFlags, PathFlags};
use wasip2::http::outgoing_handler;
use wasip2::http::types::{Fields, FutureIncomingResponse, OutgoingBody, OutgoingRequest, Scheme};
use wasip2::random::random;

/// Holds `times` of these; how many it got, and what ended it.
pub(crate) fn hold(of: &str, times: u64, text: &str) -> Value {
    let mut held: Vec<Box<dyn Any>> = Vec::new();
    let error = (0..times).find_map(|number| one(of, number, text, &mut held).err());
    let count = held.len();
    // Until the store is dropped.
    forget(held);
    json!({ "held": count, "error": error })
}

fn one(of: &str, number: u64, text: &str, held: &mut Vec<Box<dyn Any>>) -> Result<(), String> {
    match of {
        "hold_fields" => held.push(Box::new(fields(text))),
        // Fields that were there, and the places that they took.
        "hold_emptied" => {
            let fields = fields(text);
            fields.delete("x-0").map_err(|error| format!("{error:?}"))?;
            held.push(Box::new(fields));
        }
        "hold_requests" => {
            let request = OutgoingRequest::new(fields(text));
            request.set_path_with_query(Some(&format!("/{}", "p".repeat(60_000)))).map_err(none)?;
            held.push(Box::new(request));
        }
        "hold_bodies" => {
            let request = OutgoingRequest::new(Fields::new());
            let body = request.body().map_err(none)?;
            let stream = body.write().map_err(none)?;
            stream.write(&[0; 16 << 10]).map_err(|error| format!("{error:?}"))?;
            held.push(Box::new((stream, body, request)));
        }
        // One after the other, each with a piece of the file that nobody fetches.
        "hold_streams" => {
            let file = open(text, OpenFlags::empty())?;
            let stream = file.read_via_stream(number).map_err(name)?;
            let ready = stream.subscribe();
            let _ = stream.read(65_536);
            ready.block();
            drop(ready);
            held.push(Box::new((stream, file)));
        }
        "hold_listings" => {
            let listing = open(text, OpenFlags::DIRECTORY)?.read_directory().map_err(name)?;
            let _ = listing.read_directory_entry();
            held.push(Box::new(listing));
        }
        // Heads of responses, without their bodies.
        "hold_responses" => {
            let future = get(text, &Fields::new())?;
            future.subscribe().block();
            let response = future.get().ok_or("not ready")?.map_err(none)?;
            let response = response.map_err(|error| format!("{error:?}"))?;
            drop(response.consume());
            held.push(Box::new(response));
        }
        // Requests that nobody answers, each with a body that is never finished.
        "hold_sent" => held.push(Box::new(get(text, &fields("many"))?)),
        // The same, with trailers that nobody waits for.
        "hold_trailers" => {
            let request = OutgoingRequest::new(Fields::new());
            let body = request.body().map_err(none)?;
            let future = handle(request, text)?;
            OutgoingBody::finish(body, Some(fields("many"))).map_err(|code| format!("{code:?}"))?;
            held.push(Box::new(future));
        }
        other => return Err(format!("there is no flood of {other}")),
    }
    Ok(())
}

/// As many bytes of fields as may be: of one value, of many names, or of many values of one name.
fn fields(shape: &str) -> Fields {
    let fields = Fields::new();
    let value = vec![b'v'; 60_000];
    let _ = match shape {
        "large" => fields.append("x-large", &value),
        "values" => fields.set("x-0", &vec![Vec::new(); 1_400]),
        _ => (0..600).try_for_each(|n| fields.append(&format!("x-{n}"), b"")),
    };
    fields
}

fn get(authority: &str, fields: &Fields) -> Result<FutureIncomingResponse, String> {
    handle(OutgoingRequest::new(fields.clone()), authority)
}

fn handle(request: OutgoingRequest, authority: &str) -> Result<FutureIncomingResponse, String> {
    request.set_scheme(Some(&Scheme::Http)).map_err(none)?;
    request.set_authority(Some(authority)).map_err(none)?;
    request.set_path_with_query(Some("/")).map_err(none)?;
    outgoing_handler::handle(request, None).map_err(|error| format!("{error:?}"))
}

fn open(path: &str, flags: OpenFlags) -> Result<Descriptor, String> {
    let directories = get_directories();
    let (at, _) = directories.first().ok_or("no directory")?;
    at.open_at(PathFlags::empty(), path, flags, DescriptorFlags::READ).map_err(name)
}

fn name(code: ErrorCode) -> String {
    code.name().to_owned()
}

fn none((): ()) -> String {
    "refused".to_owned()
}

/// Does things in an order that the seed decides, and gives back some of what it got; then it ends,
/// crashes or goes on for ever.
pub(crate) fn mix(seed: u64, authority: &str) -> Value {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let mut next = |below: u64| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state % below
    };
    let mut held: Vec<Box<dyn Any>> = Vec::new();
    let mut refused = 0;
    for number in 0..next(400) {
        let shape = ["large", "values", "many"][next(3) as usize];
        let kind = next(15);
        let done = match kind {
            0 => one("hold_fields", number, shape, &mut held),
            1 => one("hold_emptied", number, shape, &mut held),
            2 => one("hold_requests", number, shape, &mut held),
            3 => one("hold_bodies", number, shape, &mut held),
            4 => one("hold_streams", number, "mine", &mut held),
            5 => one("hold_listings", number, ".", &mut held),
            6 => one("hold_sent", number, authority, &mut held),
            7 => {
                held.push(Box::new(monotonic_clock::subscribe_duration(u64::MAX)));
                Ok(())
            }
            8 => {
                held.push(Box::new((get_stdin(), get_directories())));
                Ok(())
            }
            9 => {
                black_box(random::get_random_bytes(next(1 << 20)));
                Ok(())
            }
            10 => {
                let source = fields(shape);
                let copy = source.clone();
                let _ = copy.append("x-more", b"value");
                held.push(Box::new((copy, source)));
                Ok(())
            }
            11 => one("hold_trailers", number, authority, &mut held),
            _ if held.is_empty() => Ok(()),
            _ => {
                drop(held.swap_remove(next(held.len() as u64) as usize));
                Ok(())
            }
        };
        refused += u64::from(done.is_err());
    }
    let end = next(4);
    let count = held.len();
    forget(held);
    match end {
        0 => panic!("on purpose"),
        1 => loop {
            black_box(());
        },
        _ => json!({ "held": count, "refused": refused }),
    }
}
