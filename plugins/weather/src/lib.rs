//! The weather of a city: the example of a plugin that needs a host and a secret.
//!
//! Read it from the end: `plugin!` lists the tools and what they need, `weather_now` is the tool,
//! and above it stand its arguments and its answer.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use toolhost_sdk::http::{Method, Request};
use toolhost_sdk::{Error, Need, Shown, Slot, arguments, plugin, secrets, tool};

#[cfg(test)]
mod tests;

/// The name of the secret. The plugin never sees its value: the host puts it into requests.
const KEY: &str = "OPENWEATHER_API_KEY";

// The doc comments of arguments and answer are what a model reads about them: they become JSON
// Schemas, and a call whose arguments do not fit never gets here.

/// Where, and in which units.
#[arguments]
struct Place {
    /// The city, such as `Paris`, or with its country, `Paris,FR`.
    #[schemars(length(min = 1))]
    city: String,
    /// metric: °C and m/s; imperial: °F and mph; standard: K and m/s.
    #[serde(default)]
    units: Units,
}

#[arguments]
#[derive(Clone, Copy, Debug, Default, Serialize)]
#[serde(rename_all = "lowercase")]
enum Units {
    #[default]
    Metric,
    Imperial,
    Standard,
}

impl Units {
    /// The name, and the symbols of temperature and speed.
    fn words(self) -> [&'static str; 3] {
        match self {
            Units::Metric => ["metric", "°C", "m/s"],
            Units::Imperial => ["imperial", "°F", "mph"],
            Units::Standard => ["standard", "K", "m/s"],
        }
    }
}

/// The answer. Programs get it as JSON that matches a schema, people and models as a line of text.
#[derive(Debug, Serialize, JsonSchema)]
struct Weather {
    city: String,
    /// Its two-letter code; empty where there is none.
    country: String,
    temperature: f64,
    feels_like: f64,
    /// In percent.
    humidity: f64,
    /// Its speed.
    wind: f64,
    description: String,
    units: Units,
}

impl fmt::Display for Weather {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Weather { city, country, temperature, feels_like, humidity, wind, description, units } =
            self;
        let [_, degrees, speed] = units.words();
        let comma = if country.is_empty() { "" } else { ", " };
        write!(
            formatter,
            "{city}{comma}{country}: {temperature} {degrees} (feels like {feels_like} {degrees}), \
             {description}, humidity {humidity} %, wind {wind} {speed}"
        )
    }
}

/// Tells the weather in a city at present: temperature, humidity, wind, and a description.
#[tool(toolset = "weather", emoji = "⛅", read_only, open_world, check = has_key)]
fn weather_now(place: Place) -> Result<Shown<Weather>, Error> {
    let [units, ..] = place.units.words();
    // `appid`, the key, is not here: the host adds it when the request leaves. `?` passes on why
    // a request does not get through; if it was not granted, with the command that grants it.
    let response = Request::new(Method::Get, "https://api.openweathermap.org/data/2.5/weather")
        .query("q", &place.city)
        .query("units", units)
        .send()?;
    // An answer with any status is an answer, so what went wrong is said here.
    if response.status() != 200 {
        return Err(explain(response.status(), &place.city));
    }
    let report: Report = response.json().map_err(|error| {
        Error::failed(format!("OpenWeatherMap cannot be understood: {error}: try again later"))
    })?;
    let description = report.weather.into_iter().next().map(|sky| sky.description);
    Ok(Shown(Weather {
        city: report.name,
        country: report.sys.country,
        temperature: report.main.temp,
        feels_like: report.main.feels_like,
        humidity: report.main.humidity,
        wind: report.wind.speed,
        description: description.unwrap_or_else(|| "no description".to_owned()),
        units: place.units,
    }))
}

/// Says what happened and what to do; a model reads it.
fn explain(status: u16, city: &str) -> Error {
    match status {
        401 => Error::not_available(format!(
            "OpenWeatherMap does not accept the key: set another one with \
             `toolhost secret set {KEY}` (a new key takes hours to work)"
        )),
        404 => {
            let message = format!(
                "OpenWeatherMap knows no city `{city}`: check the spelling, or add the country, \
                 as in `Paris,FR`"
            );
            Error::bad_argument("/city", message)
        }
        429 => Error::failed("too many requests to OpenWeatherMap: wait a minute"),
        500.. => Error::failed(format!(
            "OpenWeatherMap fails at present (status {status}): try again in a few minutes"
        )),
        _ => Error::failed(format!(
            "OpenWeatherMap answered with status {status}, which this tool cannot use: try another \
             city"
        )),
    }
}

/// Can the tool work at present? Until it can, no model is shown it, and this text says why.
fn has_key() -> Result<(), String> {
    if secrets::present(KEY) {
        return Ok(());
    }
    Err(format!(
        "no key: run `toolhost secret set {KEY}` and `toolhost grant weather \
         --http https://api.openweathermap.org --secret {KEY}@api.openweathermap.org:query=appid`"
    ))
}

/// What OpenWeatherMap says, as far as it is used here.
#[derive(Deserialize)]
struct Report {
    name: String,
    sys: Country,
    main: Air,
    wind: Wind,
    weather: Vec<Sky>,
}

#[derive(Deserialize)]
struct Country {
    #[serde(default)]
    country: String,
}

#[derive(Deserialize)]
struct Air {
    temp: f64,
    feels_like: f64,
    humidity: f64,
}

#[derive(Deserialize)]
struct Wind {
    speed: f64,
}

#[derive(Deserialize)]
struct Sky {
    description: String,
}

// Needs are what the plugin asks for; it gets what its operator grants.
plugin! {
    tools: [weather_now],
    needs: [
        Need::http(["https://api.openweathermap.org"]).reason("where the weather is asked for"),
        Need::secret(KEY, ["api.openweathermap.org"], Slot::Query("appid"))
        .reason("the key of your account at OpenWeatherMap"),
    ],
}
