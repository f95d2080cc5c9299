// SPDX-License-Identifier: GPL-2.0
//! What a machine's apt is set up for, and which of it is Debian's mirror.
//!
//! Reads both formats in which apt is told of sources, the one-line one and
//! deb822, and writes another suite of the same mirror in the latter. What says
//! how a source is trusted is kept.
//!
//! Pure text in, text out. Not here: which files there are (machine).

/// Suites by which Debian itself is recognised among other repositories.
const DEBIAN_SUITES: &[&str] = &[
    "bullseye",
    "bookworm",
    "trixie",
    "forky",
    "duke",
    "sid",
    "oldoldstable",
    "oldstable",
    "stable",
    "testing",
    "unstable",
];

/// What is asked of a mirror.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Packages that can be installed.
    Binary,
    /// What they were built from.
    Source,
}

/// One binary package source of the machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Source {
    /// Where it is served.
    pub uri: String,
    /// Suites, such as `bookworm` and `bookworm-updates`.
    pub suites: Vec<String>,
    /// Components, such as `main`.
    pub components: Vec<String>,
    /// Further deb822 fields that say how it is trusted, such as `Signed-By`.
    pub options: Vec<(String, String)>,
}

/// The binary sources in the text of a one-line style `.list` file.
pub fn parse_list(text: &str) -> Vec<Source> {
    text.lines().filter_map(parse_list_line).collect()
}

/// The binary sources in the text of a deb822 style `.sources` file.
pub fn parse_sources(text: &str) -> Vec<Source> {
    let mut sources = Vec::new();
    let mut stanza = Vec::new();
    for line in text.lines().chain([""]) {
        if line.trim().is_empty() {
            sources.extend(stanza_sources(&stanza));
            stanza.clear();
        } else if line.starts_with('#') {
            // A comment does not end a stanza.
        } else if line.starts_with([' ', '\t']) {
            if let Some((_, value)) = stanza.last_mut() {
                let value: &mut String = value;
                value.push('\n');
                value.push_str(line);
            }
        } else if let Some((name, value)) = line.split_once(':') {
            stanza.push((name.trim().to_owned(), value.trim().to_owned()));
        }
    }
    sources
}

/// The source that serves Debian's main archive, if there is one.
///
/// It has a Debian suite and `main`, and is not the security archive, which
/// has no backports. Third parties use Debian's suite names too, so among
/// several the one whose address ends in `debian` is taken.
pub fn debian_mirror(sources: &[Source]) -> Option<&Source> {
    let is_debian = |source: &&Source| {
        source
            .components
            .iter()
            .any(|component| component == "main")
            && source
                .suites
                .iter()
                .any(|suite| DEBIAN_SUITES.contains(&suite.as_str()))
            && !source.uri.contains("security")
    };
    let is_named_debian = |source: &&Source| {
        let last = source
            .uri
            .trim_end_matches('/')
            .rsplit('/')
            .next()
            .unwrap_or_default();
        last == "debian" || last == "debian.list"
    };
    let mut candidates = sources.iter().filter(is_debian);
    candidates
        .clone()
        .find(is_named_debian)
        .or_else(|| candidates.next())
}

/// The text of a `.sources` file for `suites` of `mirror`.
pub fn format_sources(mirror: &Source, suites: &[&str], kind: Kind) -> String {
    let types = match kind {
        Kind::Binary => "deb\nArchitectures: amd64",
        Kind::Source => "deb-src",
    };
    let mut text = format!(
        "Types: {types}\nURIs: {}\nSuites: {}\nComponents: main\n",
        mirror.uri,
        suites.join(" ")
    );
    for (name, value) in &mirror.options {
        text.push_str(&format!("{name}: {value}\n"));
    }
    text
}

/// One `deb` line: `deb [options] uri suite components...`.
fn parse_list_line(line: &str) -> Option<Source> {
    let line = line.split('#').next()?.trim();
    let mut rest = line
        .strip_prefix("deb")?
        .strip_prefix([' ', '\t'])?
        .trim_start();
    let mut options = Vec::new();
    if let Some(inner) = rest.strip_prefix('[') {
        let (words, after) = inner.split_once(']')?;
        options = words.split_whitespace().filter_map(list_option).collect();
        rest = after;
    }
    let mut words = rest.split_whitespace().map(str::to_owned);
    Some(Source {
        uri: words.next()?,
        suites: vec![words.next()?],
        components: words.collect(),
        options,
    })
}

/// A one-line option as a deb822 field, if it is about trust.
fn list_option(word: &str) -> Option<(String, String)> {
    let (name, value) = word.split_once('=')?;
    let field = trust_fields().find(|field| field.eq_ignore_ascii_case(name))?;
    Some((field.to_owned(), value.replace(',', " ")))
}

/// Fields that another suite of the same mirror shares.
fn trust_fields() -> impl Iterator<Item = &'static str> {
    [
        "Signed-By",
        "Trusted",
        "Check-Valid-Until",
        "Check-Date",
        "Allow-Insecure",
        "Allow-Weak",
    ]
    .into_iter()
}

/// One deb822 stanza as sources, one for each address.
fn stanza_sources(stanza: &[(String, String)]) -> Vec<Source> {
    let field = |name: &str| {
        stanza
            .iter()
            .find(|(key, _)| key.eq_ignore_ascii_case(name))
            .map(|(_, value)| value)
    };
    let words = |name: &str| -> Vec<String> {
        let value = field(name).map(String::as_str).unwrap_or_default();
        value.split_whitespace().map(str::to_owned).collect()
    };
    let is_disabled = field("Enabled").is_some_and(|value| {
        ["no", "false", "off", "0", "without", "disable"].contains(&value.to_lowercase().as_str())
    });
    if is_disabled || !words("Types").iter().any(|kind| kind == "deb") {
        return Vec::new();
    }
    let options: Vec<(String, String)> = trust_fields()
        .filter_map(|name| Some((name.to_owned(), field(name)?.clone())))
        .collect();
    words("URIs")
        .into_iter()
        .map(|uri| Source {
            uri,
            suites: words("Suites"),
            components: words("Components"),
            options: options.clone(),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const DEB822: &str = "\
Types: deb deb-src
# where it came from
URIs: http://mirror.test/debian
Suites: bookworm bookworm-updates
Components: main contrib
Signed-By: /usr/share/keyrings/some.gpg

Types: deb
URIs: http://mirror.test/debian-security
Suites: bookworm-security bookworm
Components: main

Enabled: no
Types: deb
URIs: http://off.test/debian
Suites: bookworm
Components: main

Types: deb-src
URIs: http://source.test/debian
Suites: bookworm
Components: main
";

    #[test]
    fn deb822_stanzas_give_enabled_binary_sources() {
        let sources = parse_sources(DEB822);
        assert_eq!(sources.len(), 2);
        assert_eq!(sources[0].suites, ["bookworm", "bookworm-updates"]);
        assert_eq!(sources[0].components, ["main", "contrib"]);
        let key = (
            "Signed-By".to_owned(),
            "/usr/share/keyrings/some.gpg".to_owned(),
        );
        assert_eq!(sources[0].options, [key]);
    }

    #[test]
    fn one_line_sources_are_read_with_their_options() {
        let text = "# deb http://no.test/debian bookworm main\n\
                    deb-src http://src.test/debian bookworm main\n\
                    deb [arch=amd64 signed-by=/k.gpg] http://a.test/debian/ bookworm main # x\n\
                    deb http://b.test/other stable main\n";
        let sources = parse_list(text);
        assert_eq!(sources.len(), 2);
        assert_eq!(sources[0].uri, "http://a.test/debian/");
        assert_eq!(
            sources[0].options,
            [("Signed-By".to_owned(), "/k.gpg".to_owned())]
        );
    }

    #[test]
    fn the_mirror_is_not_security_and_not_a_third_party() {
        let mut sources =
            parse_list("deb http://php.test/php bookworm main\ndeb http://x.test/u noble main\n");
        sources.extend(parse_sources(DEB822).into_iter().rev());
        assert_eq!(
            debian_mirror(&sources).unwrap().uri,
            "http://mirror.test/debian"
        );
        assert_eq!(
            debian_mirror(&parse_list("deb http://x.test/ubuntu noble main")),
            None
        );
    }

    #[test]
    fn another_suite_keeps_the_mirror_and_its_key() {
        let sources = parse_sources(DEB822);
        let text = format_sources(&sources[0], &["trixie-backports"], Kind::Binary);
        let back = parse_sources(&text);
        assert_eq!(back[0].uri, sources[0].uri);
        assert_eq!(back[0].suites, ["trixie-backports"]);
        assert_eq!(back[0].options, sources[0].options);
    }

    #[test]
    fn sources_are_asked_of_the_mirror_of_packages() {
        let mirror = &parse_sources(DEB822)[0];
        let text = format_sources(mirror, &["sid"], Kind::Source);
        assert!(text.starts_with("Types: deb-src\n"), "{text}");
        assert!(
            text.contains("\nURIs: http://mirror.test/debian\n"),
            "{text}"
        );
        // Binary packages are not among them.
        assert_eq!(parse_sources(&text), []);
    }

    #[test]
    fn a_key_in_the_stanza_survives() {
        let text = "Types: deb\nURIs: http://m.test/debian\nSuites: sid\nComponents: main\n\
                    Signed-By:\n -----BEGIN\n .\n abc\n -----END\n";
        let source = &parse_sources(text)[0];
        let back = parse_sources(&format_sources(source, &["x"], Kind::Binary));
        assert_eq!(back[0].options, source.options);
        assert!(source.options[0].1.contains("\n abc\n"));
    }
}
