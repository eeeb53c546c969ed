//! Which network addresses a request may go to. Pure; nothing is resolved or connected here.
//!
//! The hard part is IPv6: it has many ways of writing an IPv4 address, and a translator on the
//! way turns each of them into a packet to that address. So every IPv4 address that may be meant
//! is checked as well, and the form itself, which is hardly ever used on purpose.
//!
//! The ranges are those of IANA's registries of special-purpose addresses. What a registry calls
//! globally reachable inside of a range that is not (an anycast address or two) is refused too.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// How far a request may reach. Each reaches all that the one before does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reach {
    /// Addresses that everybody on the internet can reach.
    Public,
    /// Also loopback, the private ranges of IPv4 and IPv6, and carrier-grade NAT.
    Private,
    /// Also any other single host, link-local and cloud metadata included: the operator has
    /// written this very address, or `localhost`.
    Named,
}

/// What an address is, if it is not one that everybody can reach.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum AddressKind {
    /// `127.0.0.0/8`, `::1`
    Loopback,
    /// `10.0.0.0/8`, `172.16.0.0/12`, `192.168.0.0/16`
    Private,
    /// `fc00::/7`
    UniqueLocal,
    /// `100.64.0.0/10`
    CarrierGradeNat,
    /// `169.254.0.0/16`, `fe80::/10`
    LinkLocal,
    /// `fec0::/10`
    SiteLocal,
    /// Where a cloud tells a machine its secrets.
    Metadata,
    /// `192.0.2.0/24`, `198.51.100.0/24`, `203.0.113.0/24`, `2001:db8::/32`, `3fff::/20`
    Documentation,
    /// `198.18.0.0/15`, `2001:2::/48`
    Benchmarking,
    /// A form that carries an IPv4 address through IPv6, or the other way round.
    Transition,
    /// Set aside for protocols, or not given to anybody yet.
    Reserved,
    /// `0.0.0.0/8`, `::`
    Unspecified,
    /// `224.0.0.0/4`, `ff00::/8`
    Multicast,
    /// `255.255.255.255`
    Broadcast,
}

impl AddressKind {
    /// The least reach that allows addresses of this kind, if any does.
    fn reach(self) -> Option<Reach> {
        use AddressKind::{
            Benchmarking, Broadcast, CarrierGradeNat, Documentation, LinkLocal, Loopback, Metadata,
            Multicast, Private, Reserved, SiteLocal, Transition, UniqueLocal, Unspecified,
        };
        match self {
            Loopback | Private | UniqueLocal | CarrierGradeNat => Some(Reach::Private),
            LinkLocal | SiteLocal | Metadata | Documentation | Benchmarking | Transition
            | Reserved => Some(Reach::Named),
            Unspecified | Multicast | Broadcast => None,
        }
    }
}

impl fmt::Display for AddressKind {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            AddressKind::Loopback => "loopback",
            AddressKind::Private => "private",
            AddressKind::UniqueLocal => "unique local",
            AddressKind::CarrierGradeNat => "carrier-grade NAT",
            AddressKind::LinkLocal => "link-local",
            AddressKind::SiteLocal => "site-local",
            AddressKind::Metadata => "cloud metadata",
            AddressKind::Documentation => "documentation",
            AddressKind::Benchmarking => "benchmarking",
            AddressKind::Transition => "IPv6 transition",
            AddressKind::Reserved => "reserved",
            AddressKind::Unspecified => "unspecified",
            AddressKind::Multicast => "multicast",
            AddressKind::Broadcast => "broadcast",
        })
    }
}

/// Checks whether a request that may reach so far may go to an address.
///
/// # Errors
/// If `reach` does not allow the address, or an IPv4 address inside of it; with what it is.
pub fn check(ip: IpAddr, reach: Reach) -> Result<(), AddressKind> {
    let refused = |kind: &AddressKind| kind.reach().is_none_or(|least| reach < least);
    match kinds(ip).find(refused) {
        None => Ok(()),
        Some(kind) => Err(kind),
    }
}

/// Returns the least reach that allows an address, if any does.
pub fn least(ip: IpAddr) -> Option<Reach> {
    [Reach::Public, Reach::Private, Reach::Named]
        .into_iter()
        .find(|reach| check(ip, *reach).is_ok())
}

/// What an address is: first any IPv4 address inside of it, then the address itself.
fn kinds(ip: IpAddr) -> impl Iterator<Item = AddressKind> {
    let (inner, own) = match ip {
        IpAddr::V4(ip) => ([None, None], kind_of_v4(ip)),
        IpAddr::V6(ip) => match ip.to_ipv4_mapped() {
            // A socket takes the mapped form for the IPv4 address, so it is nothing else.
            Some(ip) => ([None, None], kind_of_v4(ip)),
            None => (embedded(ip).map(|inner| inner.and_then(kind_of_v4)), kind_of_v6(ip)),
        },
    };
    inner.into_iter().flatten().chain(own)
}

/// The networks in which a cloud tells a machine its secrets.
const METADATA_V4: [[u8; 4]; 7] = [
    // AWS, Azure, Google and most others; containers of AWS; its pods; Scaleway.
    [169, 254, 169, 254],
    [169, 254, 170, 2],
    [169, 254, 170, 23],
    [169, 254, 42, 42],
    // Alibaba, inside of carrier-grade NAT.
    [100, 100, 100, 200],
    // Oracle, inside of a reserved range.
    [192, 0, 0, 192],
    // Azure, in the middle of public addresses.
    [168, 63, 129, 16],
];

/// The same for IPv6: AWS, its pods, Google, Scaleway.
const METADATA_V6: [Ipv6Addr; 4] = [
    Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254),
    Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x23),
    Ipv6Addr::new(0xfd20, 0xce, 0, 0, 0, 0, 0, 0x254),
    Ipv6Addr::new(0xfd00, 0x42, 0, 0, 0, 0, 0, 0x42),
];

fn kind_of_v4(ip: Ipv4Addr) -> Option<AddressKind> {
    let octets = ip.octets();
    if METADATA_V4.contains(&octets) {
        return Some(AddressKind::Metadata);
    }
    Some(match octets {
        [0, ..] => AddressKind::Unspecified,
        [10, ..] | [172, 16..=31, ..] | [192, 168, ..] => AddressKind::Private,
        [100, 64..=127, ..] => AddressKind::CarrierGradeNat,
        [127, ..] => AddressKind::Loopback,
        [169, 254, ..] => AddressKind::LinkLocal,
        [192, 0, 0, _] => AddressKind::Reserved,
        [192, 0, 2, _] | [198, 51, 100, _] | [203, 0, 113, _] => AddressKind::Documentation,
        // Relays of 6to4.
        [192, 88, 99, _] => AddressKind::Transition,
        [198, 18..=19, ..] => AddressKind::Benchmarking,
        [224..=239, ..] => AddressKind::Multicast,
        [255, 255, 255, 255] => AddressKind::Broadcast,
        [240..=255, ..] => AddressKind::Reserved,
        _ => return None,
    })
}

fn kind_of_v6(ip: Ipv6Addr) -> Option<AddressKind> {
    if METADATA_V6.contains(&ip) {
        return Some(AddressKind::Metadata);
    }
    Some(match ip.segments() {
        [0, 0, 0, 0, 0, 0, 0, 0] => AddressKind::Unspecified,
        [0, 0, 0, 0, 0, 0, 0, 1] => AddressKind::Loopback,
        // IPv4-compatible; NAT64 within one network.
        [0, 0, 0, 0, 0, 0, ..] | [0x64, 0xff9b, 1, ..] => AddressKind::Transition,
        // NAT64 that everybody can reach, as far as the IPv4 address can be.
        [0x64, 0xff9b, 0, 0, 0, 0, ..] => return None,
        // Teredo, 6to4.
        [0x2001, 0, ..] | [0x2002, ..] => AddressKind::Transition,
        [0x2001, 2, 0, ..] => AddressKind::Benchmarking,
        [0x2001, 0xdb8, ..] | [0x3fff, 0..=0x0fff, ..] => AddressKind::Documentation,
        [0x2001, 0..=0x1ff, ..] => AddressKind::Reserved,
        // The only part from which addresses are given to anybody.
        [0x2000..=0x3fff, ..] => return None,
        [0xfc00..=0xfdff, ..] => AddressKind::UniqueLocal,
        [0xfe80..=0xfebf, ..] => AddressKind::LinkLocal,
        [0xfec0..=0xfeff, ..] => AddressKind::SiteLocal,
        [0xff00..=0xffff, ..] => AddressKind::Multicast,
        _ => AddressKind::Reserved,
    })
}

/// The IPv4 addresses that an IPv6 address carries; two where one cannot know which is meant.
fn embedded(ip: Ipv6Addr) -> [Option<Ipv4Addr>; 2] {
    let octets = ip.octets();
    let at = |places: [usize; 4]| Some(Ipv4Addr::from(places.map(|place| octets[place])));
    let last = at([12, 13, 14, 15]);
    match ip.segments() {
        [0, 0, 0, 0, 0, 0, 0, 0..=1] => [None, None],
        [0, 0, 0, 0, 0, 0, ..] | [0x64, 0xff9b, 0, 0, 0, 0, ..] => [last, None],
        // Its prefix may be of 96 bits or of 48; then octet 8 is left out, and the rest zero.
        [0x64, 0xff9b, 1, ..] => {
            let after_48 = at([6, 7, 9, 10]);
            let meant = |ip: &Ipv4Addr| !ip.is_unspecified();
            [last.filter(meant), after_48.filter(meant)]
        }
        // Teredo has its server, and the client with each bit turned over.
        [0x2001, 0, ..] => [at([4, 5, 6, 7]), last.map(|client| !client)],
        [0x2002, ..] => [at([2, 3, 4, 5]), None],
        // ISATAP, below any prefix.
        [_, _, _, _, 0 | 0x200, 0x5efe, ..] => [last, None],
        _ => [None, None],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What an address is, and the least reach that allows it.
    const TABLE: &str = "
        0.0.0.0                          unspecified        never
        0.255.255.255                    unspecified        never
        1.0.0.0                          -                  Public
        8.8.8.8                          -                  Public
        9.255.255.255                    -                  Public
        10.0.0.0                         private            Private
        10.255.255.255                   private            Private
        11.0.0.0                         -                  Public
        100.63.255.255                   -                  Public
        100.64.0.0                       carrier-grade NAT  Private
        100.100.100.199                  carrier-grade NAT  Private
        100.100.100.200                  cloud metadata     Named
        100.127.255.255                  carrier-grade NAT  Private
        100.128.0.0                      -                  Public
        126.255.255.255                  -                  Public
        127.0.0.0                        loopback           Private
        127.0.0.1                        loopback           Private
        127.255.255.255                  loopback           Private
        128.0.0.0                        -                  Public
        168.63.129.15                    -                  Public
        168.63.129.16                    cloud metadata     Named
        169.253.255.255                  -                  Public
        169.254.0.0                      link-local         Named
        169.254.42.42                    cloud metadata     Named
        169.254.169.254                  cloud metadata     Named
        169.254.170.2                    cloud metadata     Named
        169.254.170.23                   cloud metadata     Named
        169.254.255.255                  link-local         Named
        169.255.0.0                      -                  Public
        172.15.255.255                   -                  Public
        172.16.0.0                       private            Private
        172.31.255.255                   private            Private
        172.32.0.0                       -                  Public
        191.255.255.255                  -                  Public
        192.0.0.0                        reserved           Named
        192.0.0.192                      cloud metadata     Named
        192.0.0.255                      reserved           Named
        192.0.1.0                        -                  Public
        192.0.2.0                        documentation      Named
        192.0.2.255                      documentation      Named
        192.0.3.0                        -                  Public
        192.88.98.255                    -                  Public
        192.88.99.1                      IPv6 transition    Named
        192.88.100.0                     -                  Public
        192.167.255.255                  -                  Public
        192.168.0.0                      private            Private
        192.168.255.255                  private            Private
        192.169.0.0                      -                  Public
        198.17.255.255                   -                  Public
        198.18.0.0                       benchmarking       Named
        198.19.255.255                   benchmarking       Named
        198.20.0.0                       -                  Public
        198.51.99.255                    -                  Public
        198.51.100.0                     documentation      Named
        198.51.101.0                     -                  Public
        203.0.112.255                    -                  Public
        203.0.113.255                    documentation      Named
        203.0.114.0                      -                  Public
        223.255.255.255                  -                  Public
        224.0.0.0                        multicast          never
        239.255.255.255                  multicast          never
        240.0.0.0                        reserved           Named
        255.255.255.254                  reserved           Named
        255.255.255.255                  broadcast          never

        ::                               unspecified        never
        ::1                              loopback           Private
        ::2                              unspecified        never
        ::127.0.0.1                      loopback           Named
        ::10.0.0.1                       private            Named
        ::169.254.169.254                cloud metadata     Named
        ::224.0.0.1                      multicast          never
        ::8.8.8.8                        IPv6 transition    Named
        ::ffff:8.8.8.8                   -                  Public
        ::ffff:10.0.0.1                  private            Private
        ::ffff:127.0.0.1                 loopback           Private
        ::ffff:169.254.169.254           cloud metadata     Named
        ::ffff:100.100.100.200           cloud metadata     Named
        ::ffff:0.0.0.0                   unspecified        never
        ::ffff:0:8.8.8.8                 reserved           Named
        64:ff9b::8.8.8.8                 -                  Public
        64:ff9b::10.0.0.1                private            Private
        64:ff9b::127.0.0.1               loopback           Private
        64:ff9b::169.254.169.254         cloud metadata     Named
        64:ff9b::                        unspecified        never
        64:ff9b:0:0:0:1:808:808          reserved           Named
        64:ff9b:1::8.8.8.8               IPv6 transition    Named
        64:ff9b:1::127.0.0.1             loopback           Named
        64:ff9b:1:a9fe:a9:fe00::         cloud metadata     Named
        64:ff9b:1:7f00:0:100::           loopback           Named
        64:ff9b:1::255.255.255.255       broadcast          never
        64:ff9b:2::                      reserved           Named
        100::1                           reserved           Named
        1fff:ffff::                      reserved           Named
        2000::                           -                  Public
        2001::                           unspecified        never
        2001:0:808:808:0:0:f7f7:f7f7     IPv6 transition    Named
        2001:0:808:808:0:0:80ff:fffe     loopback           Named
        2001:0:a9fe:a9fe:0:0:f7f7:f7f7   cloud metadata     Named
        2001:1::1                        reserved           Named
        2001:2::                         benchmarking       Named
        2001:2:0:ffff::                  benchmarking       Named
        2001:2:1::                       reserved           Named
        2001:1ff:ffff::                  reserved           Named
        2001:200::                       -                  Public
        2001:4860:4860::8888             -                  Public
        2001:db7:ffff::                  -                  Public
        2001:db8::                       documentation      Named
        2001:db8:ffff::                  documentation      Named
        2001:db9::                       -                  Public
        2002:808:808::                   IPv6 transition    Named
        2002:7f00:1::                    loopback           Named
        2002:a00:1::                     private            Named
        2002:a9fe:a9fe::                 cloud metadata     Named
        2003::                           -                  Public
        2606:4700::5efe:8.8.8.8          -                  Public
        2606:4700::5efe:10.0.0.1         private            Private
        2606:4700::200:5efe:127.0.0.1    loopback           Private
        2606:4700::5efe:169.254.169.254  cloud metadata     Named
        3ffe:ffff::                      -                  Public
        3fff::                           documentation      Named
        3fff:fff:ffff::                  documentation      Named
        3fff:1000::                      -                  Public
        4000::                           reserved           Named
        5f00::                           reserved           Named
        fbff:ffff::                      reserved           Named
        fc00::                           unique local       Private
        fd00:ec2::254                    cloud metadata     Named
        fd00:ec2::23                     cloud metadata     Named
        fd20:ce::254                     cloud metadata     Named
        fd00:42::42                      cloud metadata     Named
        fd00:ec2::255                    unique local       Private
        fdff:ffff::                      unique local       Private
        fe00::                           reserved           Named
        fe7f:ffff::                      reserved           Named
        fe80::                           link-local         Named
        fe80::a9fe:a9fe                  link-local         Named
        fe80::5efe:10.0.0.1              private            Named
        febf:ffff::                      link-local         Named
        fec0::                           site-local         Named
        feff:ffff::                      site-local         Named
        ff00::                           multicast          never
        ff02::1                          multicast          never
    ";

    #[test]
    fn each_address_is_what_it_is() {
        let rows = TABLE.lines().map(str::trim).filter(|row| !row.is_empty());
        let expected: Vec<String> =
            rows.map(|row| row.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
        let found: Vec<String> = expected
            .iter()
            .map(|row| {
                let written = row.split(' ').next().expect("an address");
                let ip: IpAddr = written.parse().unwrap_or_else(|_| panic!("{written}"));
                let kind = match check(ip, Reach::Public) {
                    Ok(()) => "-".to_owned(),
                    Err(kind) => kind.to_string(),
                };
                let least = least(ip).map_or("never".to_owned(), |least| format!("{least:?}"));
                format!("{written} {kind} {least}")
            })
            .collect();
        assert_eq!(found.join("\n"), expected.join("\n"));
        assert_eq!(found.len(), 142);
    }

    #[test]
    fn a_further_reach_takes_nothing_away() {
        for row in TABLE.lines().filter(|row| !row.trim().is_empty()) {
            let written = row.split_whitespace().next().expect("an address");
            let ip: IpAddr = written.parse().unwrap_or_else(|_| panic!("{written}"));
            let [public, private, named] =
                [Reach::Public, Reach::Private, Reach::Named].map(|reach| check(ip, reach).is_ok());
            assert!(public <= private && private <= named, "{ip}");
        }
    }
}
