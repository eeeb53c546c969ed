//! Answers of all sizes, and what is left of them to show.

use super::*;

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;

fn output(content: Vec<Content>) -> ToolOutput {
    ToolOutput { content, ..ToolOutput::default() }
}

fn texts(sizes: &[usize]) -> ToolOutput {
    let letters = "abcdefgh".chars();
    let block = |(letter, size): (char, &usize)| Content::Text(letter.to_string().repeat(*size));
    output(letters.zip(sizes).map(block).collect())
}

/// Makes an answer fit that has the whole turn for itself.
fn fit(results: &mut Results, tool: &str, output: &mut ToolOutput, chars_max: usize) {
    results.fit(
        Returned { tool, call_id: None, keeps_structure: false, output },
        chars_max,
        &mut usize::MAX.clone(),
    );
}

/// The blocks in short: the length of a text, or the id in whose place it stands.
fn outline(output: &ToolOutput) -> Vec<String> {
    let line = |block: &Content| match text(block) {
        Some(text) => match text.split_once("Full output saved to: ") {
            Some((_, rest)) => rest.lines().next().unwrap_or_default().to_owned(),
            None => text.chars().count().to_string(),
        },
        None => "-".to_owned(),
    };
    output.content.iter().map(line).collect()
}

fn only_text(output: &ToolOutput) -> &str {
    match output.content.as_slice() {
        [Content::Text(text)] => text,
        other => panic!("not one text: {other:?}"),
    }
}

#[test]
fn g91_what_cannot_be_kept_is_cut() {
    let mut results = Results::new(Bytes(0));
    let mut fits = texts(&[100]);
    fit(&mut results, "t", &mut fits, 100);
    assert_eq!(fits, texts(&[100]));
    let mut large = texts(&[200]);
    fit(&mut results, "t", &mut large, 100);
    assert_eq!(
        only_text(&large),
        format!(
            "{}\n\n[Truncated: tool response was 200 chars. Full output could not be saved to \
             sandbox.]",
            "a".repeat(200)
        )
    );
    let mut larger = texts(&[200_000]);
    fit(&mut results, "t", &mut larger, 100_000);
    let end = "aaa\n\n[Truncated: tool response was 200,000 chars. Full output could not be saved \
               to sandbox.]";
    assert!(only_text(&larger).ends_with(end));
    assert!(only_text(&larger).starts_with(&"a".repeat(1_500)));
    assert_eq!((results.kept.len(), results.bytes), (0, 0));
}

#[test]
fn g91_pages_of_files_and_of_results_are_never_kept() {
    let mut results = Results::new(Bytes(MIB));
    for tool in ["read_file", "result_read"] {
        let mut page = texts(&[200_000]);
        let mut left = 150_000;
        let returned = Returned { tool, call_id: None, keeps_structure: false, output: &mut page };
        results.fit(returned, 100_000, &mut left);
        assert_eq!((page, left), (texts(&[200_000]), 0));
    }
}

#[test]
fn g93_ids_are_stems_with_a_number() {
    let mut results = Results::new(Bytes(MIB));
    let mut id = |tool: &str, call_id: Option<&str>| {
        let mut output = texts(&[9_000]);
        let returned = Returned { tool, call_id, keeps_structure: false, output: &mut output };
        results.fit(returned, 8_000, &mut usize::MAX.clone());
        outline(&output).remove(0)
    };
    assert_eq!(id("t", Some("abc")), "abc-1");
    assert_eq!(id("t", Some("a/b")), "a_b_c14cddc033f6-2");
    assert_eq!(id("t", Some("../x")), "x_d6b96a97d147-3");
    assert_eq!(id("t", Some("")), "tool_result-4");
    assert_eq!(id("t", Some("abc")), "abc-5");
    assert_eq!(id("t", None), "t-6");
}

#[test]
fn a_large_result_is_kept_and_previewed() {
    let mut results = Results::new(Bytes(MIB));
    let line = format!("{}\n", "é".repeat(99));
    let text = line.repeat(2_000);
    let mut large = output(vec![Content::Json(text.clone())]);
    fit(&mut results, "web_search", &mut large, 100_000);
    assert_eq!(
        only_text(&large),
        format!(
            "<persisted-output>\nThis tool result was too large (200,000 characters, 388.7 KB).\n\
             Full output saved to: web_search-1\nUse result_read with id \"web_search-1\", offset \
             and limit to read sections of it; offsets count characters and begin at 0.\n\n\
             Preview (first 1500 chars):\n{}\n...\n</persisted-output>",
            line.repeat(15)
        )
    );
    let slice = results.read("web_search-1", 199_950, 50).expect("a section");
    assert_eq!(slice.text, format!("{}\n", "é".repeat(49)));
    assert_eq!((slice.total_chars, slice.next_offset), (200_000, None));
    assert_eq!(slice.tool, "web_search");
    assert_eq!(size(1_048_575), "1024.0 KB");
    assert_eq!(size(3 << 19), "1.5 MB");
    assert_eq!(["0", "999", "1,000", "1234567"].map(str::len), [1, 3, 5, 7]);
    assert_eq!([0, 999, 1_000, 1_234_567].map(thousands), ["0", "999", "1,000", "1,234,567"]);
}

#[test]
fn sections_follow_one_another() {
    let mut results = Results::new(Bytes(MIB));
    let text: String = ('a'..='z').cycle().take(100_001).chain("日本".chars()).collect();
    let mut large = output(vec![Content::Text(text.clone())]);
    fit(&mut results, "t", &mut large, 8_000);
    let (mut read, mut offset) = (String::new(), Some(0));
    while let Some(at) = offset {
        let slice = results.read("t-1", at, 33_333).expect("a section");
        assert!(slice.text.chars().count() <= 33_333);
        read.push_str(&slice.text);
        offset = slice.next_offset;
    }
    assert_eq!(read, text);
    assert_eq!(results.read("t-1", 100_002, 1).expect("the last").text, "本");
    assert_eq!(results.read("t-1", 100_002, 1).expect("the last").next_offset, None);
    assert_eq!(results.read("t-1", 100_001, 0).expect("at least one").text, "日");
    let most = results.read("t-1", 0, usize::MAX).expect("a section");
    assert_eq!((most.text.len(), most.next_offset), (READ_CHARS_MAX, Some(READ_CHARS_MAX)));

    let error = |id: &str, offset| results.read(id, offset, 1).expect_err("an error").to_string();
    assert_eq!(
        error("t-1", 100_003),
        "offset 100003 is past the end of `t-1`, which has 100003 characters"
    );
    error("t-1", usize::MAX);
    for id in ["t-2", "x-1", "t-01", "t", "", "t-", "-1"] {
        let unknown = "is kept in this session; old results make way for new ones";
        assert_eq!(error(id, 0), format!("no result `{id}` {unknown}"));
    }
    assert!(error(&"\n\u{1b}x".repeat(10_000), 0).len() < 1_000);
}

#[test]
fn the_largest_blocks_go_first() {
    let mut results = Results::new(Bytes(MIB));
    let mut check = |sizes: &[usize], expected: &[&str]| {
        let mut output = texts(sizes);
        fit(&mut results, "t", &mut output, 10_000);
        assert_eq!(outline(&output), expected);
        let shown: usize = self::sizes(&output).sum();
        assert!(shown <= 10_000, "{shown}");
    };
    check(&[4_000, 6_000], &["4000", "6000"]);
    check(&[10_001], &["t-1"]);
    check(&[4_000, 6_001], &["4000", "t-2"]);
    check(&[5_000, 8_000, 7_000], &["5000", "t-3", "t-4"]);
    check(&[100, 50_000, 2_000], &["100", "t-5", "2000"]);
    // Too many small ones: all as one.
    check(&[2_000; 6], &["t-6"]);
    check(&[2_100, 9_000, 2_100, 2_100, 2_100], &["t-7"]);
    assert_eq!(results.read("t-6", 1_999, 4).expect("a section").text, "a\n\nb");
}

#[test]
fn pictures_and_addresses_stay() {
    let picture = Content::Image { media_type: "image/png".into(), data: vec![0; 100_000] };
    let resource = |text: Option<String>| Content::Resource {
        uri: "x:y".into(),
        media_type: Some("text/plain".into()),
        text,
    };
    let mut results = Results::new(Bytes(MIB));
    let mut answer = output(vec![picture.clone(), resource(Some("r".repeat(9_000)))]);
    fit(&mut results, "t", &mut answer, 8_000);
    assert_eq!(outline(&answer), ["-", "-", "t-1"]);
    assert_eq!(answer.content[..2], [picture.clone(), resource(None)]);
    let mut small = vec![Content::Text("s".repeat(2_000)); 5];
    small.insert(2, resource(Some("r".into())));
    small.insert(0, picture);
    let mut answer = output(small);
    fit(&mut results, "t", &mut answer, 8_000);
    assert_eq!(outline(&answer), ["-", "t-2", "-"]);
}

#[test]
fn structured_answers_are_dropped_when_too_large() {
    let mut results = Results::new(Bytes(MIB));
    for (size, stays) in [(8_000, true), (8_001, false)] {
        let json = format!("\"{}\"", "x".repeat(size - 2));
        let mut output = ToolOutput { structured: Some(json), ..texts(&[10]) };
        fit(&mut results, "t", &mut output, 8_000);
        assert_eq!((output.structured.is_some(), outline(&output)), (stays, vec!["10".into()]));
    }
}

#[test]
fn a_turn_has_a_bound_of_its_own() {
    let mut results = Results::new(Bytes(MIB));
    let (mut one, mut two, mut page) =
        (texts(&[50_000]), texts(&[9_000, 60_000]), texts(&[40_000]));
    let mut left = 110_000;
    let mut batch = [
        Returned { tool: "one", call_id: Some("call_1"), keeps_structure: false, output: &mut one },
        Returned { tool: "two", call_id: Some("call_2"), keeps_structure: false, output: &mut two },
        Returned {
            tool: "read_file",
            call_id: Some("call_3"),
            keeps_structure: false,
            output: &mut page,
        },
    ];
    results.fit_all(&mut batch, 100_000, &mut left);
    assert_eq!(outline(&one), ["50000"]);
    assert_eq!(outline(&two), ["9000", "call_2-1"]);
    assert_eq!(outline(&page), ["40000"]);
    assert!((8_800..9_500).contains(&left), "{left}");

    // Small answers pass even when nothing is left; large ones are kept.
    let mut again = texts(&[9_500, SHOWN_CHARS_MAX]);
    results.fit(
        Returned { tool: "t", call_id: None, keeps_structure: false, output: &mut again },
        100_000,
        &mut left,
    );
    assert_eq!(outline(&again), ["t-2", "2200"]);
    left = 0;
    let mut again = texts(&[SHOWN_CHARS_MAX, SHOWN_CHARS_MAX + 1]);
    results.fit(
        Returned { tool: "t", call_id: None, keeps_structure: false, output: &mut again },
        100_000,
        &mut left,
    );
    assert_eq!((outline(&again), left), (vec!["2200".into(), "t-3".into()], 0));
}

#[test]
fn results_bytes_max_obeyed() {
    let mut results = Results::new(Bytes(30 * KIB));
    for number in 1..=10 {
        fit(&mut results, "t", &mut texts(&[9_000]), 8_000);
        assert!(results.bytes <= 30 << 10);
        let kept: Vec<u64> = results.kept.keys().copied().collect();
        let expected: Vec<u64> = (number.max(3) - 2..=number).collect();
        assert_eq!(kept, expected, "the oldest make way");
    }
    assert!(results.read("t-8", 0, 1).is_ok());
    assert!(matches!(results.read("t-7", 0, 1), Err(ResultReadError::Unknown(_))));
}

#[test]
fn results_bytes_max_violated() {
    let mut results = Results::new(Bytes(30 * KIB));
    fit(&mut results, "t", &mut texts(&[9_000]), 8_000);
    let mut large = texts(&[30 << 10]);
    fit(&mut results, "t", &mut large, 8_000);
    assert!(only_text(&large).contains("[Truncated: tool response was 30,720 chars."));
    assert!(results.read("t-1", 0, 1).is_ok(), "nothing makes way for what does not fit");
}

#[test]
fn what_is_shown_is_short() {
    let mut results = Results::new(Bytes(MIB));
    results.number = u64::MAX - 1;
    let mut large = texts(&[500_000]);
    let id = "/".repeat(1_000) + &"a".repeat(1_000);
    let returned =
        Returned { tool: "t", call_id: Some(&id), keeps_structure: false, output: &mut large };
    results.fit(returned, 8_000, &mut usize::MAX.clone());
    let shown = only_text(&large).chars().count();
    assert!(shown <= SHOWN_CHARS_MAX, "{shown}");
}

#[test]
fn room_in_a_context() {
    let limits = Limits::default();
    let check = |tokens, result_chars_max, turn_chars_max| {
        assert_eq!(window(tokens, &limits), Window { result_chars_max, turn_chars_max });
    };
    check(None, 100_000, 200_000);
    check(Some(0), 8_000, 16_000);
    check(Some(8_000), 8_000, 16_000);
    check(Some(32_000), 19_200, 38_400);
    check(Some(65_536), 39_321, 78_643);
    check(Some(128_000), 76_800, 153_600);
    check(Some(200_000), 100_000, 200_000);
    check(Some(u64::MAX), 100_000, 200_000);
    let mut limits = Limits::default();
    limits.set("result_chars_max", "5000").expect("allowed");
    limits.set("turn_chars_max", "1000000").expect("allowed");
    assert_eq!(
        window(Some(1_000_000), &limits),
        Window { result_chars_max: 5_000, turn_chars_max: 1_000_000 }
    );
}
