//! The tool natively, with made-up answers; `tests/weather.rs` of toolhost has it in its sandbox.

use toolhost_sdk::http::{self, test};
use toolhost_sdk::testing;

use super::*;

const PARIS: &str = r#"{
    "coord": {"lon": 2.3488, "lat": 48.8534},
    "weather": [{"id": 500, "main": "Rain", "description": "light rain", "icon": "10d"}],
    "main": {"temp": 18.25, "feels_like": 18.0, "pressure": 1012, "humidity": 72},
    "wind": {"speed": 4.1, "deg": 240},
    "sys": {"country": "FR", "sunrise": 1726636384},
    "name": "Paris", "cod": 200
}"#;

/// Calls the tool while OpenWeatherMap answers like this, whatever it is asked.
fn call(arguments: &str, status: u16, body: &'static str) -> Result<(String, String), String> {
    let answer = move |_: &test::Sent| Ok(test::response(status, body));
    let output = test::respond_with(answer, || testing::call::<weather_now>(arguments));
    output
        .map(|output| (output.text(), output.structured().expect("the same as JSON").to_owned()))
        .map_err(|error| error.message().to_owned())
}

#[test]
fn the_weather_is_told_to_people_and_programs() {
    let (text, structured) = call(r#"{"city": "paris"}"#, 200, PARIS).unwrap();
    assert_eq!(
        text,
        "Paris, FR: 18.25 °C (feels like 18 °C), light rain, humidity 72 %, wind 4.1 m/s"
    );
    assert_eq!(
        structured,
        r#"{"city":"Paris","country":"FR","temperature":18.25,"feels_like":18.0,"humidity":72.0,"wind":4.1,"description":"light rain","units":"metric"}"#
    );
    let (text, _) = call(r#"{"city": "paris", "units": "imperial"}"#, 200, PARIS).unwrap();
    assert!(text.contains("18.25 °F") && text.ends_with("4.1 mph"), "{text}");
}

#[test]
fn the_request_names_city_and_units_and_no_key() {
    for (arguments, query) in [
        (r#"{"city": "São Paulo,BR"}"#, "q=S%C3%A3o%20Paulo%2CBR&units=metric"),
        (r#"{"city": "a&appid=b", "units": "standard"}"#, "q=a%26appid%3Db&units=standard"),
    ] {
        let url = format!("https://api.openweathermap.org/data/2.5/weather?{query}");
        let answer = move |sent: &test::Sent| {
            assert_eq!((sent.method, &sent.url), (http::Method::Get, &url));
            Ok(test::response(200, PARIS))
        };
        let output = test::respond_with(answer, || testing::call::<weather_now>(arguments));
        assert!(output.is_ok(), "{output:?}");
    }
}

#[test]
fn errors_say_what_to_do() {
    for (status, body, expected) in [
        (
            401,
            r#"{"cod": 401, "message": "Invalid API key."}"#,
            "`toolhost secret set OPENWEATHER_API_KEY`",
        ),
        (
            404,
            r#"{"cod": "404", "message": "city not found"}"#,
            "no city `Paris`: check the spelling",
        ),
        (429, "", "wait a minute"),
        (500, "oops", "(status 500): try again"),
        (302, "", "status 302, which this tool cannot use"),
        (200, "<html>", "the expected JSON: expected value at line 1 column 1: try again"),
        (200, r#"{"name": "Paris"}"#, "missing field"),
    ] {
        let message = call(r#"{"city": "Paris"}"#, status, body).unwrap_err();
        assert!(message.contains(expected), "{status}: {message}");
    }
}

#[test]
fn what_the_host_says_is_passed_on() {
    let refusal = "run `toolhost grant weather --http https://api.openweathermap.org`";
    let answer = move |_: &test::Sent| Err(http::Error::Refused(refusal.to_owned()));
    let call = || testing::call::<weather_now>(r#"{"city": "Paris"}"#);
    assert_eq!(test::respond_with(answer, call).unwrap_err().message(), refusal);
}
