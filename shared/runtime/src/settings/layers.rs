//! From command line, environment and file to one value per option.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use clap::error::ErrorKind;
use clap::{Arg, ArgMatches, Command};

use super::catalogue::{CATALOGUE, OptionSpec, Status, by_flag, by_key};
use super::value::{self, Kind};
use super::{Program, SettingsError, file};

/// The file that is read if none is named, provided it exists. Source: `--config-file` @ 8871cd9c.
const DEFAULT_FILE: &str = "/etc/openvswitch/ovn_k8s.conf";

/// Everything settings are made from.
#[derive(Debug, Clone, Default)]
pub struct Input {
    /// Arguments without the program's name.
    pub args: Vec<String>,
    /// Environment variables.
    pub env: BTreeMap<String, String>,
    /// The file to read if none is named and this one exists.
    pub default_file: Option<PathBuf>,
}

impl Input {
    /// The input of this process. Text that is not UTF-8 is replaced and then fails as an unknown value.
    #[must_use]
    pub fn of_process() -> Self {
        let lossy = |text: std::ffi::OsString| text.to_string_lossy().into_owned();
        Self {
            args: std::env::args_os().skip(1).map(lossy).collect(),
            env: std::env::vars_os().map(|(name, value)| (lossy(name), lossy(value))).collect(),
            default_file: Some(DEFAULT_FILE.into()),
        }
    }
}

/// Where a value comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// The command line.
    Flag,
    /// This environment variable.
    Environment(String),
    /// This line of this file.
    File(PathBuf, usize),
    /// Nowhere: it is the default.
    Default,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Flag => f.write_str("flag"),
            Self::Environment(name) => write!(f, "environment {name}"),
            Self::File(path, line) => write!(f, "{}:{line}", path.display()),
            Self::Default => f.write_str("default"),
        }
    }
}

/// Which layer a value comes from; a greater one wins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Rank {
    Default,
    File,
    Environment,
    Flag,
}

#[derive(Debug)]
struct Value {
    spec: &'static OptionSpec,
    text: String,
    origin: Origin,
}

impl Value {
    /// What to call the setting in an error: the thing a person has to change.
    fn place(&self) -> String {
        match &self.origin {
            Origin::Flag | Origin::Default => format!("--{}", self.spec.name),
            Origin::Environment(name) => name.clone(),
            Origin::File(path, line) => format!("{}:{line}: {}", path.display(), self.spec.name),
        }
    }

    /// Whether the setting asks for something.
    fn is_on(&self) -> bool {
        match self.spec.kind {
            Kind::Flag => value::flag(&self.text) == Ok(true),
            _ => !self.text.is_empty(),
        }
    }
}

/// One valid value per option that has one.
#[derive(Debug, Default)]
pub(super) struct Values(BTreeMap<&'static str, Value>);

impl Values {
    /// The value of an option, its default included; `None` if it is empty or unset.
    pub(super) fn text(&self, name: &str) -> Option<&str> {
        let set = self.0.get(name).map(|value| value.text.as_str());
        set.or_else(|| by_flag(name).map(|spec| spec.default)).filter(|text| !text.is_empty())
    }

    /// Whether a switch is on.
    pub(super) fn is_on(&self, name: &str) -> bool {
        self.text(name).is_some_and(|text| value::flag(text) == Ok(true))
    }

    pub(super) fn rank(&self, name: &str) -> Rank {
        match self.0.get(name).map(|value| &value.origin) {
            Some(Origin::Flag) => Rank::Flag,
            Some(Origin::Environment(_)) => Rank::Environment,
            Some(Origin::File(..)) => Rank::File,
            Some(Origin::Default) | None => Rank::Default,
        }
    }

    /// Everything that was set, with secrets hidden.
    pub(super) fn effective(&self) -> Vec<(&'static str, String, Origin)> {
        let shown = |value: &Value| match value.spec.kind {
            Kind::Secret => "(hidden)".to_owned(),
            _ => value.text.clone(),
        };
        self.0.iter().map(|(name, value)| (*name, shown(value), value.origin.clone())).collect()
    }

    /// Takes `value` unless a higher layer, or an earlier line of the same meaning, set the option.
    fn offer(&mut self, value: Value) {
        self.0.entry(value.spec.name).or_insert(value);
    }
}

/// Reads all layers; the second part of the answer are warnings.
pub(super) fn read(program: &Program, input: &Input) -> Result<(Values, Vec<String>), SettingsError> {
    let mut values = Values::default();
    read_flags(program, &input.args, &mut values)?;
    read_environment(&input.env, &mut values);
    let mut problems = Vec::new();
    let mut warnings = Vec::new();
    let named = values.text("config-file").map(PathBuf::from);
    let path = named.or_else(|| input.default_file.clone().filter(|path| path.exists()));
    if let Some(path) = path {
        let unknown = read_file(&path, &mut values, &mut problems)?;
        if values.is_on("allow-unknown-keys") {
            warnings.extend(unknown.into_iter().map(|text| format!("{text}; it is ignored")));
        } else {
            problems.extend(unknown);
        }
    }
    let allowed = values.is_on("allow-unimplemented");
    for value in values.0.values() {
        if let Err(error) = value.spec.kind.check(&value.text) {
            problems.push(format!("{} {error}", value.place()));
        } else if let (Status::Unimplemented(feature), true) = (value.spec.status, value.is_on()) {
            let text = format!("{} asks for {feature}, which this version does not have", value.place());
            if allowed {
                warnings.push(format!("{text}; it is ignored"));
            } else {
                problems.push(format!("{text} (--allow-unimplemented starts without it)"));
            }
        }
    }
    if problems.is_empty() { Ok((values, warnings)) } else { Err(SettingsError::Invalid(problems)) }
}

fn read_environment(env: &BTreeMap<String, String>, values: &mut Values) {
    for spec in CATALOGUE {
        let own = spec.own_env();
        for name in [Some(own.as_str()), spec.env].into_iter().flatten() {
            // Container templates set variables they have no value for to nothing.
            if let Some(text) = env.get(name).filter(|text| !text.is_empty()) {
                values.offer(Value {
                    spec,
                    text: text.clone(),
                    origin: Origin::Environment(name.to_owned()),
                });
            }
        }
    }
}

/// Takes over a file; returns the keys that nobody knows.
fn read_file(
    path: &Path,
    values: &mut Values,
    problems: &mut Vec<String>,
) -> Result<Vec<String>, SettingsError> {
    let text = std::fs::read_to_string(path)
        .map_err(|source| SettingsError::File { path: path.to_owned(), source })?;
    let entries = match file::parse(&text) {
        Ok(entries) => entries,
        Err((line, error)) => {
            problems.push(format!("{}:{line}: {error}", path.display()));
            return Ok(Vec::new());
        }
    };
    let mut unknown = Vec::new();
    // The last line of a key wins, and `offer` keeps the first.
    for entry in entries.into_iter().rev() {
        match by_key(&entry.section, &entry.key) {
            Some(spec) => {
                let origin = Origin::File(path.to_owned(), entry.line);
                values.offer(Value { spec, text: entry.value, origin });
            }
            None => unknown.push(format!(
                "{}:{}: nobody knows the key {} in section [{}]",
                path.display(),
                entry.line,
                entry.key,
                entry.section
            )),
        }
    }
    unknown.reverse();
    Ok(unknown)
}

fn read_flags(program: &Program, args: &[String], values: &mut Values) -> Result<(), SettingsError> {
    let normal = args.iter().map(|arg| with_two_dashes(arg));
    let matches = command(program).try_get_matches_from(normal).map_err(|error| match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => {
            SettingsError::Shown(error.render().to_string())
        }
        _ => SettingsError::Usage(first_sentence(&error)),
    })?;
    for spec in CATALOGUE {
        if let Some(text) = flag_value(&matches, spec) {
            values.offer(Value { spec, text, origin: Origin::Flag });
        }
    }
    Ok(())
}

fn flag_value(matches: &ArgMatches, spec: &OptionSpec) -> Option<String> {
    matches.get_one::<String>(spec.name).cloned()
}

/// Go's flag package takes `-name` for `--name`.
fn with_two_dashes(arg: &str) -> String {
    let name = arg.strip_prefix('-').and_then(|rest| rest.split('=').next());
    if name.and_then(by_flag).is_some() { format!("-{arg}") } else { arg.to_owned() }
}

/// The part of a clap error that says what is wrong.
fn first_sentence(error: &clap::Error) -> String {
    let text = error.render().to_string();
    let text = text.strip_prefix("error: ").unwrap_or(&text);
    text.lines().next().unwrap_or_default().to_owned()
}

/// The command line of `program`, generated from the catalogue.
pub(super) fn command(program: &Program) -> Command {
    let args = CATALOGUE.iter().map(|spec| {
        let help = match spec.status {
            Status::Implemented => spec.help.to_owned(),
            Status::Accepted => format!("{} (accepted, no effect yet)", spec.help),
            Status::Unimplemented(_) => format!("{} (not in this version)", spec.help),
        };
        let arg =
            Arg::new(spec.name).long(spec.name).aliases(spec.aliases).help(help).overrides_with(spec.name);
        match spec.kind {
            Kind::Flag => {
                arg.num_args(0..=1).require_equals(true).default_missing_value("true").value_name("BOOL")
            }
            kind => arg.num_args(1).allow_negative_numbers(true).value_name(kind.placeholder()),
        }
    });
    Command::new(program.name)
        .about(program.about)
        .version(env!("CARGO_PKG_VERSION"))
        .no_binary_name(true)
        .args(args)
}
