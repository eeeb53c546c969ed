//! Directories: needs, grants, and what no grant may reach.

use super::*;

fn grant(text: &str) -> DirGrant {
    DirGrant::parse(text, Some(Path::new("/project"))).expect(text)
}

#[test]
fn grants_are_read_and_written() {
    for (text, written) in [
        ("/data:ro", "/data:ro"),
        ("/data=/in:rw", "/data=/in:rw"),
        (".:ro", "/project:ro"),
        ("./a/b=b:ro", "/project/a/b=b:ro"),
    ] {
        assert_eq!(grant(text).to_string(), written);
        assert_eq!(grant(written), grant(text));
    }
    for bad in ["/data", "/data:rx", ":ro", "/data=:ro", "../x:ro", ""] {
        assert!(DirGrant::parse(bad, Some(Path::new("/project"))).is_err(), "{bad}");
    }
    assert!(DirGrant::parse("data:ro", None).is_err());
    assert!(DirGrant::parse(".:rw", Some(Path::new("/home/u/=x"))).is_err());
    assert!(DirGrant::parse("/a=b=c:rw", None).is_ok_and(|grant| grant.guest == "b=c"));
}

#[test]
fn authority_is_need_and_grant() {
    let need = |path: &str, access: &str, tools: &[&str]| Need {
        kind: "dirs".to_owned(),
        value: format!(r#"{{"path": "{path}", "access": "{access}"}}"#),
        tools: tools.iter().map(|&tool| tool.to_owned()).collect(),
        reason: String::new(),
    };
    let check = |needs: &[Need], tool: &str, text: &str, expected: Option<Access>| {
        assert_eq!(access(needs, tool, &grant(text)), expected, "{text}");
    };
    let any = [need("*", "ro", &["read"])];
    check(&any, "read", "/data:ro", Some(Access::Read));
    check(&any, "read", "/data:rw", Some(Access::Read));
    check(&any, "write", "/data:rw", None);
    let both = [need("*", "ro", &[]), need("/out", "rw", &[])];
    check(&both, "t", "/data=/out:rw", Some(Access::Write));
    check(&both, "t", "/data=/out/x:rw", Some(Access::Write));
    check(&both, "t", "/data=/outer:rw", Some(Access::Read));
    check(&[], "t", "/data:ro", None);
    let nonsense = Need { value: "{".to_owned(), ..need("*", "ro", &[]) };
    check(&[nonsense], "t", "/data:ro", None);
}

#[test]
fn the_hosts_own_folders_are_refused() {
    let own = [
        OwnFolder { path: "/home/u/.state".into(), what: "state", readable: false },
        OwnFolder { path: "/project/plugins".into(), what: "plugins", readable: true },
    ];
    let refused = |path: &str, access| refusal(Path::new(path), access, &own).is_some();
    assert!(refused("/home/u/.state", Access::Read));
    assert!(refused("/home/u/.state/x", Access::Read));
    assert!(refused("/home/u", Access::Read));
    assert!(refused("/", Access::Read));
    assert!(!refused("/home/u/.stately", Access::Write));
    assert!(!refused("/project", Access::Read));
    assert!(refused("/project", Access::Write));
    assert!(refused("/project/plugins/x", Access::Write));
    assert!(!refused("/project/src", Access::Write));
    assert!(refused("/proc/self", Access::Read) && refused("/dev", Access::Read));
    for path in [
        "/",
        "/usr",
        "/usr/bin",
        "/usr/local",
        "/etc",
        "/etc/ssl",
        "/lib64",
        "/boot/x",
        "/var",
        "/run",
    ] {
        assert!(refused(path, Access::Write), "{path}");
    }
    for path in
        ["/usr/src/x", "/usr/local/src", "/opt/x", "/tmp", "/var/lib/x", "/root", "/etcetera"]
    {
        assert!(!refused(path, Access::Write), "{path}");
    }
    assert!(!refused("/usr/share", Access::Read) && !refused("/etc/ssl", Access::Read));
    let said = refusal(Path::new("/usr"), Access::Write, &own).unwrap_or_default();
    assert_eq!(
        said,
        "/usr contains /usr/bin, which holds the system's programs or configuration; grant another directory, or grant `ro`"
    );
    assert!(!refused("/dev/shm/x", Access::Write) && !refused("/devices", Access::Read));
}

#[test]
fn what_is_mounted_twice_has_both_names() {
    let mounts = "\
        22 1 8:1 / / rw - ext4 /dev/sda1 rw\n\
        23 22 8:2 / /home rw - ext4 /dev/sda2 rw\n\
        24 22 8:2 /u/src /mnt/a\\040b rw - ext4 /dev/sda2 rw\n\
        25 22 8:2 /u/src/target/deps /mnt/deps rw - ext4 /dev/sda2 rw\n\
        26 22 8:2 /u/src /data/in/side rw - ext4 /dev/sda2 rw\n\
        nonsense\n";
    let check = |path: &str, expected: &[&str]| {
        let names = names(Path::new(path), mounts);
        let names: Vec<&str> = names.iter().filter_map(|name| name.to_str()).collect();
        assert_eq!(names[0], path);
        for name in expected {
            assert!(names.contains(name), "{path}: {name} is not among {names:?}");
        }
        names.len()
    };
    check("/mnt/a b", &["/home/u/src", "/data/in/side"]);
    check("/mnt/a b/x", &["/home/u/src/x", "/data/in/side/x"]);
    check("/mnt/deps", &["/home/u/src/target/deps", "/mnt/a b/target/deps"]);
    check("/mnt/deps/y", &["/home/u/src/target/deps/y"]);
    // A mount within.
    check("/data", &["/home/u/src"]);
    check("/home/u", &["/mnt/a b", "/mnt/deps"]);
    assert_eq!(check("/etc", &[]), 1);
    assert_eq!(check("/home/v", &[]), 1);
    assert_eq!(super::names(Path::new("/x"), "").len(), 1);
}
