//! What a script returns comes whole, or as an error that names the place.

use crate::support::Lab;

#[test]
fn what_a_result_would_lose_is_an_error_with_its_place() {
    let javascript = r#"import { tool } from "toolhost-sdk";
const VALUES = { half: "\ud800", method: { ok: true, f() {} }, regexp: { a: [1, /x/] }, date: { at: new Date(0) } };
tool({ name: "give_js", description: "Gives.", parameters: { type: "object", properties: { what: { type: "string" } } } },
  ({ what }) => VALUES[what]);
"#;
    let python = r#"from toolhost import tool
VALUES = {"half": "\ud800", "method": {"ok": True, "f": print}}
@tool
def give_py(what: str) -> object:
    """Gives."""
    return VALUES[what]
"#;
    let lab = Lab::new().with("js.js", javascript).with("py.py", python);
    for (tool, what, said) in [
        ("give_js", "half", "result is text that has half of a surrogate pair (U+D800)"),
        (
            "give_js",
            "method",
            "result.f is a function (f), which JSON has no form for; leave it out",
        ),
        (
            "give_js",
            "regexp",
            "result.a[1] is a RegExp, which JSON has no form for; return its text: String(value)",
        ),
        ("give_js", "date", r#"{"at":"1970-01-01T00:00:00.000Z"}"#),
        ("give_py", "half", "result: text has half of a surrogate pair (U+D800)"),
        (
            "give_py",
            "method",
            "result['f']: a builtin_function_or_method cannot be written as JSON; return",
        ),
    ] {
        let answer = lab.run(&["call", tool, &format!(r#"{{"what": "{what}"}}"#)]);
        assert!(answer.contains(said), "{tool} {what}: {answer}");
        assert_eq!(answer.starts_with("exit 0"), what == "date", "{tool} {what}: {answer}");
    }
}
