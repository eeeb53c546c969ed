//! Secrets, put into the final request in place of whatever the guest wrote there.

use http::{HeaderMap, HeaderValue};
use url::form_urlencoded;

use super::{SecretRight, not_set, placeholder};
use crate::call_log::CallLog;
use toolhost_core::tool::Refusal;
use toolhost_policy::capability::{Kind, SecretGrant, SecretSlot, Target, check_variable};

/// How every placeholder begins.
const PLACEHOLDER: &str = "{{secret:";

/// Puts the secrets that are bound to this request into it.
///
/// # Errors
/// With the reason and the repair: a secret is not set, its way is not safe, two of them have
/// one slot, or a placeholder stands where nothing takes its place.
pub(in crate::capability) fn inject(
    call_log: &CallLog,
    secrets: &SecretRight,
    target: &mut Target,
    headers: &mut HeaderMap,
) -> Result<(), String> {
    let bound: Vec<SecretGrant> = secrets.rights.bound_to(target).into_iter().cloned().collect();
    for (number, grant) in bound.iter().enumerate() {
        let SecretGrant { name, slot, .. } = grant;
        let earlier = bound[..number].iter().find(|earlier| earlier.slot == *slot);
        if earlier.is_some_and(|earlier| earlier.name == *name) {
            // Two grants of one secret, such as of a host and of all below its parent.
            continue;
        }
        if earlier.is_some() {
            return Err(call_log.refuse(Refusal {
                what: target.to_string(),
                why: format!("is refused, since two secrets are granted for its {slot}"),
                repair: format!(
                    "take one back with `toolhost revoke {} {}`",
                    call_log.words(),
                    Kind::SECRETS.flag_for(&grant.to_string())
                ),
                grant: None,
            }));
        }
        let Some(value) = secrets.value(name) else {
            return Err(call_log.refuse(not_set(name)));
        };
        if !target.is_safe() {
            return Err(call_log.refuse(Refusal {
                what: target.to_string(),
                why: format!(
                    "is refused, since it would show the secret {name} to everybody on its way"
                ),
                repair: "a secret goes over https, or to localhost".to_owned(),
                grant: None,
            }));
        }
        let with_value = |written: &str| {
            let placeholder = placeholder(name);
            match written.contains(&placeholder) {
                true => written.replacen(&placeholder, value.expose(), 1),
                false => value.expose().to_owned(),
            }
        };
        call_log.used(Kind::SECRETS, name);
        match slot {
            SecretSlot::Header(header) => {
                let written = headers.get(header).and_then(|value| value.to_str().ok());
                let value = HeaderValue::from_str(&with_value(written.unwrap_or_default()));
                let mut value = value.map_err(|_| {
                    format!("the secret {name} cannot stand in a header: set one of plain text")
                })?;
                value.set_sensitive(true);
                headers.insert(header, value);
            }
            SecretSlot::Query(parameter) => set_parameter(target, parameter, with_value),
        }
    }
    for asked in secrets.rights.lacking_for(target) {
        let what = format!("the secret {} for {target}", asked.name);
        // The request goes without it; whoever wonders at the answer is told.
        call_log.not_granted(Kind::SECRETS, &asked.to_string(), &what);
    }
    leftover(call_log, secrets, target, headers)
}

/// Sets one query parameter; the others stay as they were written.
fn set_parameter(target: &mut Target, parameter: &str, with_value: impl Fn(&str) -> String) {
    let (mut kept, mut written) = (Vec::new(), None);
    for part in target.url().query().unwrap_or_default().split('&') {
        match form_urlencoded::parse(part.as_bytes()).next() {
            Some((name, value)) if name == parameter => {
                written.get_or_insert_with(|| value.into_owned());
            }
            _ if part.is_empty() => {}
            _ => kept.push(part.to_owned()),
        }
    }
    let value = with_value(written.as_deref().unwrap_or_default());
    kept.push(
        form_urlencoded::Serializer::new(String::new()).append_pair(parameter, &value).finish(),
    );
    target.url_mut().set_query(Some(&kept.join("&")));
}

/// Refuses a request that still has a placeholder: whoever wrote it meant a secret to be there.
fn leftover(
    call_log: &CallLog,
    secrets: &SecretRight,
    target: &Target,
    headers: &HeaderMap,
) -> Result<(), String> {
    let url = percent_decoded(target.url().as_str());
    let in_headers = headers.values().filter_map(|value| value.to_str().ok());
    let Some(text) = in_headers.chain([url.as_str()]).find(|text| text.contains(PLACEHOLDER))
    else {
        return Ok(());
    };
    let after = text.split_once(PLACEHOLDER).map_or("", |(_, after)| after);
    let name = after.split_once("}}").map_or("", |(name, _)| name);
    let name = if check_variable(name).is_ok() { name } else { "of no name" };
    let what = format!("{target} with the secret {name}");
    Err(match secrets.rights.asked(name) {
        Some(_) if secrets.rights.has(name) => call_log.refuse(Refusal {
            what,
            why: "is refused, since the placeholder does not stand in the header or query parameter of the host that the secret is granted for".to_owned(),
            repair: "its author must put it there".to_owned(),
            grant: None,
        }),
        Some(asked) => call_log.not_granted(Kind::SECRETS, &asked.to_string(), &what),
        None => call_log.not_asked(Kind::SECRETS, name, &what),
    })
}

fn percent_decoded(url: &str) -> String {
    // Of a URL every escape is of one byte, so `+` and `&` stay out of it.
    let (path, query) = url.split_once('?').unwrap_or((url, ""));
    let decode =
        |text: &str| percent_encoding::percent_decode_str(text).decode_utf8_lossy().into_owned();
    format!("{}?{}", decode(path), decode(query))
}
