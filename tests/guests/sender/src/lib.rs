//! Sends requests with the SDK's client, and says what came back.

use std::time::Duration;

use toolhost_sdk::http::{Method, Request};
use toolhost_sdk::{Error, Need, arguments, plugin, tool};

#[arguments]
struct Sending {
    url: String,
    /// Posts a body of this many bytes.
    body_bytes: Option<usize>,
    body_bytes_max: Option<u64>,
    timeout_ms: Option<u64>,
    /// A header, name and value.
    header: Option<(String, String)>,
}

/// Sends one request, and tells the status, the header `location` and the size of the body.
#[tool(toolset = "probe")]
fn send(sending: Sending) -> Result<String, Error> {
    let mut request = match sending.body_bytes {
        None => Request::new(Method::Get, &sending.url),
        Some(bytes) => Request::new(Method::Post, &sending.url).body("x".repeat(bytes)),
    };
    if let Some(bytes) = sending.body_bytes_max {
        request = request.body_bytes_max(bytes);
    }
    if let Some(milliseconds) = sending.timeout_ms {
        request = request.timeout(Duration::from_millis(milliseconds));
    }
    if let Some((name, value)) = &sending.header {
        request = request.header(name, value);
    }
    let mut response = request.send()?;
    let mut bytes = 0;
    while let Some(chunk) = response.chunk()? {
        bytes += chunk.len();
    }
    let location = response.header("location").unwrap_or("nowhere");
    Ok(format!("{} to {location}, {bytes} bytes", response.status()))
}

plugin! {
    tools: [send],
    needs: [Need::http(["http://*:*", "https://*:*"]).reason("to try the client of the SDK")],
}
