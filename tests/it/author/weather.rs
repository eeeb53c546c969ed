//! The bundled plugin `weather` in its sandbox, with a server that answers like OpenWeatherMap.

use std::collections::BTreeMap;
use std::sync::Arc;

use expect_test::expect;
use serde_json::{Value, json};
use toolhost::{Host, HostSettings};
use toolhost_egress::{EgressSettings, Resolver};
use toolhost_state::secret::SecretValue;
use url::Url;

use crate::support::server::{FixedNames, Peer, TestServer, root, tls};
use crate::support::{Lab, answer, call, guest};

const KEY: &str = "0123456789abcdef0123456789abcdef";
/// Stands in for the real host, whose port is not free to choose; as long as that with a port.
const STAND_IN: &str = "openweather.test";

/// The plugin, made to ask the stand-in at this port: where its code and its needs name the real
/// host, they name the other.
fn asking(port: u16) -> Vec<u8> {
    const REAL: &[u8] = b"api.openweathermap.org";
    let other = format!("{STAND_IN}:{port:05}");
    assert_eq!(other.len(), REAL.len());
    let mut bytes = guest("weather");
    let places: Vec<usize> =
        (0..bytes.len()).filter(|&start| bytes[start..].starts_with(REAL)).collect();
    assert!(!places.is_empty());
    for start in places {
        bytes[start..start + REAL.len()].copy_from_slice(other.as_bytes());
    }
    bytes
}

async fn serve(mut peer: Peer) {
    while let Some(request) = peer.request().await {
        let (status, body) = report(&request);
        let length = body.len();
        peer.say(format!(
            "HTTP/1.1 {status} \r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}"
        ))
        .await;
    }
}

/// What OpenWeatherMap answers.
fn report(request: &str) -> (u16, String) {
    let path = request.split(' ').nth(1).expect("a path");
    let url = Url::parse("https://openweather.test").and_then(|url| url.join(path)).expect("a URL");
    let query: BTreeMap<_, _> = url.query_pairs().into_owned().collect();
    let said = |name: &str| query.get(name).map_or("", String::as_str);
    let error = |status: u16, message: &str| {
        (status, json!({ "cod": status.to_string(), "message": message }).to_string())
    };
    if said("appid") != KEY {
        return error(401, "Invalid API key. Please see https://openweathermap.org/faq#error401");
    }
    if !request.starts_with("GET ") || url.path() != "/data/2.5/weather" {
        return error(404, "Internal error");
    }
    let (temperature, wind) = match said("units") {
        "imperial" => (64.85, 9.17),
        "metric" => (18.25, 4.1),
        _ => (291.4, 4.1),
    };
    let (name, country, sky) = match said("q") {
        "Paris" => ("Paris", json!({ "country": "FR", "sunrise": 1_726_636_384 }), "light rain"),
        "São Paulo,BR" => ("São Paulo", json!({ "country": "BR" }), "céu limpo"),
        "Null Island" => ("Null Island", json!({}), "mist"),
        "Mirror" => ("Mirror", json!({}), said("appid")),
        "Busy" => return error(429, "Your account is temporary blocked"),
        "Broken" => return (503, "<h1>503</h1>".to_owned()),
        "Garbage" => return (200, "<html>".to_owned()),
        "Moved" => return (302, String::new()),
        _ => return error(404, "city not found"),
    };
    let report = json!({
        "coord": { "lon": 2.3488, "lat": 48.8534 },
        "weather": [{ "id": 500, "main": "Any", "description": sky, "icon": "10d" }],
        "main": { "temp": temperature, "feels_like": temperature, "pressure": 1012, "humidity": 72 },
        "wind": { "speed": wind, "deg": 240 },
        "sys": country,
        "name": name,
        "cod": 200,
    });
    (200, report.to_string())
}

async fn server() -> TestServer {
    TestServer::on("127.0.0.1:0", Some(tls(STAND_IN, 2100)), serve).await
}

/// A host with the plugin, granted what these words name, and with this key.
async fn host(server: &TestServer, granted: &[&str], key: &str) -> (Lab, Host) {
    let at = format!("{STAND_IN}:{}", server.port);
    let mut config = "[plugins.weather]\n".to_owned();
    if granted.contains(&"http") {
        config += &format!("http = [\"https://{at} private\"]\n");
    }
    if granted.contains(&"secret") {
        config += &format!("secrets = [\"OPENWEATHER_API_KEY@{at}:query=appid\"]\n");
    }
    let lab = Lab::new().config(&config).granted("weather", asking(server.port));
    let resolver: Arc<dyn Resolver> = FixedNames::new(&[&format!("{STAND_IN}: 127.0.0.1")]);
    let value = SecretValue::new(key.to_owned()).expect("a value");
    let settings = HostSettings {
        secrets: BTreeMap::from([("OPENWEATHER_API_KEY".to_owned(), value)]),
        egress: EgressSettings { resolver: Some(resolver), roots: vec![root()] },
        ..lab.settings()
    };
    let host = Host::start(settings).expect("a host");
    host.loaded().await;
    (lab, host)
}

#[tokio::test]
async fn the_weather_of_a_city() {
    let server = server().await;
    let (_lab, host) = host(&server, &["http", "secret"], KEY).await;
    let mut said = String::new();
    for arguments in [
        json!({ "city": "Paris" }),
        json!({ "city": "Paris", "units": "imperial" }),
        json!({ "city": "São Paulo,BR", "units": "standard" }),
        json!({ "city": "Null Island" }),
    ] {
        said += &format!("{}\n", answer(&host, "weather_now", arguments).await);
    }
    expect![[r#"
        {"result":"Paris, FR: 18.25 °C (feels like 18.25 °C), light rain, humidity 72 %, wind 4.1 m/s"}
        {"result":"Paris, FR: 64.85 °F (feels like 64.85 °F), light rain, humidity 72 %, wind 9.17 mph"}
        {"result":"São Paulo, BR: 291.4 K (feels like 291.4 K), céu limpo, humidity 72 %, wind 4.1 m/s"}
        {"result":"Null Island: 18.25 °C (feels like 18.25 °C), mist, humidity 72 %, wind 4.1 m/s"}
    "#]]
    .assert_eq(&said);

    let output = call(&host, "weather_now", json!({ "city": "Paris" })).await;
    let structured = output.result.expect("an answer").structured.expect("the same as JSON");
    assert_eq!(
        serde_json::from_str::<Value>(&structured).expect("JSON"),
        json!({
            "city": "Paris", "country": "FR", "temperature": 18.25, "feels_like": 18.25,
            "humidity": 72.0, "wind": 4.1, "description": "light rain", "units": "metric",
        })
    );

    // What left: the key, put in by the host, and nothing that the plugin did not write.
    let requests = server.requests();
    let first: Vec<&str> = requests[0].lines().collect();
    assert_eq!(
        first[0],
        format!("GET /data/2.5/weather?q=Paris&units=metric&appid={KEY} HTTP/1.1")
    );
    assert_eq!(requests.len(), 5);
}

#[tokio::test]
async fn the_key_is_nothing_the_plugin_can_see() {
    let server = server().await;
    let (_lab, host) = host(&server, &["http", "secret"], KEY).await;
    let said = answer(&host, "weather_now", json!({ "city": "Mirror" })).await;
    assert!(said.contains("[REDACTED:OPENWEATHER_API_KEY]") && !said.contains(KEY), "{said}");
    // A city that would be a parameter is a city.
    answer(&host, "weather_now", json!({ "city": "Paris&appid=x&units=imperial" })).await;
    let requests = server.requests();
    let asked = requests[1].lines().next().expect("a line");
    assert_eq!(
        asked,
        format!(
            "GET /data/2.5/weather?q=Paris%26appid%3Dx%26units%3Dimperial&units=metric&appid={KEY} HTTP/1.1"
        )
    );
}

#[tokio::test]
async fn what_goes_wrong_says_what_to_do() {
    let server = server().await;
    let (_lab, good) = host(&server, &["http", "secret"], KEY).await;
    let (_other, bad) = host(&server, &["http", "secret"], "a wrong key").await;
    let mut said = String::new();
    for city in ["Atlantis", "Busy", "Broken", "Garbage", "Moved", ""] {
        said += &format!("{}\n", answer(&good, "weather_now", json!({ "city": city })).await);
    }
    said += &format!("{}\n", answer(&bad, "weather_now", json!({ "city": "Paris" })).await);
    let said = said.replace(&server.port.to_string(), "PORT");
    expect![[r#"
        {"error":"[TOOL_ERROR] OpenWeatherMap knows no city `Atlantis`: check the spelling, or add the country, as in `Paris,FR`","code":"invalid_arguments","path":"/city"}
        {"error":"[TOOL_ERROR] too many requests to OpenWeatherMap: wait a minute","code":"failed"}
        {"error":"[TOOL_ERROR] OpenWeatherMap fails at present (status 503): try again in a few minutes","code":"failed"}
        {"error":"[TOOL_ERROR] OpenWeatherMap cannot be understood: the answer of openweather.test:PORT is not the expected JSON: expected value at line 1 column 1: try again later","code":"failed"}
        {"error":"[TOOL_ERROR] OpenWeatherMap answered with status 302, which this tool cannot use: try another city","code":"failed"}
        {"error":"invalid arguments for `weather_now`: /city: \"\" is shorter than 1 character","code":"invalid_arguments","errors":[{"path":"/city","message":"/city: \"\" is shorter than 1 character"}]}
        {"error":"[TOOL_ERROR] OpenWeatherMap does not accept the key: set another one with `toolhost secret set OPENWEATHER_API_KEY` (a new key takes hours to work)","code":"unavailable"}
    "#]]
    .assert_eq(&said);
}

#[tokio::test]
async fn what_is_not_granted_is_named() {
    let server = server().await;
    let mut said = String::new();
    for granted in [&[] as &[&str], &["http"], &["secret"]] {
        let (_lab, host) = host(&server, granted, KEY).await;
        let answer = answer(&host, "weather_now", json!({ "city": "Paris" })).await;
        said += &format!("{granted:?}: {answer}\n").replace(&server.port.to_string(), "PORT");
    }
    assert_eq!(server.requests(), [""; 0]);
    expect![[r#"
        []: {"error":"[TOOL_ERROR] `weather_now` is not available: no key: run `toolhost secret set OPENWEATHER_API_KEY` and `toolhost grant weather --http https://openweather.test:PORT --secret OPENWEATHER_API_KEY@openweather.test:PORT:query=appid`","code":"unavailable"}
        ["http"]: {"error":"[TOOL_ERROR] `weather_now` is not available: no key: run `toolhost secret set OPENWEATHER_API_KEY` and `toolhost grant weather --http https://openweather.test:PORT --secret OPENWEATHER_API_KEY@openweather.test:PORT:query=appid`","code":"unavailable"}
        ["secret"]: {"error":"[TOOL_ERROR] GET https://openweather.test:PORT/data/2.5/weather is not granted: run `toolhost grant weather --http https://openweather.test:PORT`","code":"failed"}
    "#]]
    .assert_eq(&said);
}
